//! The log of the whole suite at its finest, and a search of it for every secret that was used.

mod search;
mod suite;
