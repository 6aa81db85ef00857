//! The sending job: it chooses the next event for each endpoint, sends it, and handles the outcome.

pub(crate) mod breaker;
pub(crate) mod endpoint_loop;
pub(crate) mod load;
pub(crate) mod outcome;
pub(crate) mod parked;
pub(crate) mod queue;
pub(crate) mod retry_schedule;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod sender;
pub(crate) mod window;
