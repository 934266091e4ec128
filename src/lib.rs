//! Aforo.
