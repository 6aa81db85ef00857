//! Tests of the binary: flags, commands, output, log and signals.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that fails panics")]

mod billing;
mod clock;
mod commands;
mod console;
mod demo;
mod events;
mod listeners;
mod log;
mod memory;
mod packaging;
mod production;
mod provider_attacks;
mod provider_shop;
mod providers;
mod running;
mod self_service;
mod start;
mod users;
mod webhook_attacks;
mod webhook_commands;
mod webhook_receiver;
mod webhooks;
