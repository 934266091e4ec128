//! Aforo: an edge proxy that holds every tenant of an API to its rate across a whole cluster of
//! gateways.

pub mod limit;
