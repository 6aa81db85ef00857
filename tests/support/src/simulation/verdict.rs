//! The verdict of an invariant.

use std::fmt;

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: &'static str,
    detail: String,
}

impl Broken {
    pub fn new(invariant: &'static str, detail: impl Into<String>) -> Self {
        Self { invariant, detail: detail.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}
