//! One delivery: its payload, its signature and the request.

pub(crate) mod addresses;
pub(crate) mod payload;
pub(crate) mod signals;
pub(crate) mod signature;
pub(crate) mod signing;
pub(crate) mod transport;
