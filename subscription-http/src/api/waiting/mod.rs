//! Requests and jobs that wait: for events, for work, for the database, for time.

pub(crate) mod job_signal;
pub(crate) mod long_polls;
pub(crate) mod readiness;
pub(crate) mod turned_clock;
