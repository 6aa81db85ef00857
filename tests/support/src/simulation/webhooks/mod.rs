//! The simulation of webhooks: receivers fail, slow down, vanish and return, while workers send events and are killed
//! between any two awaits.

pub mod broken;
pub mod invariants;
mod life;
mod receivers;
mod store;
mod worker;
pub mod world;
