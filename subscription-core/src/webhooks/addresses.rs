//! The addresses that deliveries may be sent to.

/// The rules for addresses: the networks that are allowed or denied beside the built-in list.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AddressRules {}
