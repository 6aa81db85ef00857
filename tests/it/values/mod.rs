//! Values by themselves: how each is read, written and refused.

mod billing_cycles;
mod currencies;
mod faults;
mod ids;
mod numbers;
mod randomness;
mod texts;
mod times;
mod web_origins;
