//! Endpoints whose receivers fail, slow down, vanish and return, while events are sent by workers that are killed
//! between any two awaits.

pub mod broken;
pub mod invariants;
mod life;
mod receivers;
mod store;
mod worker;
pub mod world;
