//! The requests to the API of Stripe, and its pages.
