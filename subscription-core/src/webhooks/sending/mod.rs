//! Which event goes to an endpoint next, and what becomes of it.

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
