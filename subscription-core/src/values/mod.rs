//! Small types that validate their values, and the interfaces to the clock and to randomness.

pub(crate) mod as_text;
pub(crate) mod clock;
pub(crate) mod currency;
pub(crate) mod decimal;
pub(crate) mod document_id;
pub(crate) mod email_key;
pub(crate) mod faults;
pub(crate) mod id;
pub(crate) mod input;
pub(crate) mod metadata;
pub(crate) mod named_enum;
pub(crate) mod randomness;
pub(crate) mod states;
pub(crate) mod text;
pub(crate) mod version;
mod with_fields;
