//! The program as it is started: its flags, its commands, its one line, its log, its signals.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that fails panics")]

mod commands;
mod demo;
mod listeners;
mod log;
mod memory;
mod production;
mod running;
mod start;
mod users;
