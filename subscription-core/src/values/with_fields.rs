//! The `with_*` methods of settings, filters and queries, which callers cannot write as struct literals.

/// Defines a method for each field. `with_limit(PageLimit) => limit` is the method `with_limit`, which sets the field
/// `limit` to a `PageLimit`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_fields {
    ($($type:ident { $($with:ident($value:ty) => $field:ident,)+ })+) => {$(
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $with(mut self, value: $value) -> Self {
                    self.$field = value.into();
                    self
                }
            )+
        }
    )+};
}
