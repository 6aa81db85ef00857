//! The engine of providers: events are received, objects observed and records followed.

mod bindings;
mod following;
mod intake;
mod order_of_commits;
mod strangers;
mod sync;
mod waiting;
mod world;
