//! Several regions, one limit: who holds which share of it, and how shares move with demand.
//!
//! Each region has gateways, a Redis of its own, and a *base share* of every limit by its
//! configuration. Every gateway writes what it was asked for to the database, and one of them at a
//! time, the *writer*, moves the shares: [`need`] says what each region needs, [`target`] where the
//! shares should be, [`grant`] how far they may go there now, and [`round`] is all of that for one
//! moment. [`watch`] tells a gateway that is silent from one that is gone, [`holder`] is the side
//! of a gateway, and [`service`] runs both against the database. [`show`] is the command.
//!
//! **The shares that are in force anywhere sum to at most 1 at every moment.** This does not hang
//! on any clock's time of day, nor on messages that arrive:
//!
//! - The database orders everything. A gateway tells it which version is in force and learns the
//!   last one in one step, which excludes the writer's; so the writer knows of each gateway two
//!   versions, and that no other is in force.
//! - Shares that shrink are published first. What a region gives up is free once none of its
//!   gateways may have the old version in force.
//! - A gateway that hears nothing for its lease, three times `rebalance`, falls back to its base
//!   share or what it has less; the writer counts the same time from when it last saw a sign of
//!   life. That began later, so it ends later. Both measure a duration, each by a clock that only
//!   goes forward.
//! - A gateway that is silent keeps its part reserved until its region's other gateways are as many
//!   as there should be: then it is gone.

pub mod grant;
pub mod holder;
pub mod need;
pub mod round;
pub mod service;
pub mod show;
pub mod target;
pub mod watch;

#[cfg(test)]
mod model;
