//! The `with_*` methods of settings, filters and queries, which callers cannot write as struct literals.

/// Writes for each field a method that sets it, with the type of its argument: `with_limit(PageLimit) => limit`.
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
