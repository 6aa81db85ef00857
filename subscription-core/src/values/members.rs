//! The JSON of types whose JSON members are not the same as their Rust fields.

/// Implements `Serialize` for a type. `Type: it; id, price(), name { it.plan.name }` writes three JSON members: `id`
/// from a field, `price` from a method, and `name` from an expression, in which `it` is the value. With `it.record` in
/// place of `it`, the fields and methods are those of the field `record`.
#[doc(hidden)]
#[macro_export]
macro_rules! serialize_members {
    (@ $of:ident $name:ident) => { $of.$name };
    (@ $of:ident $name:ident ()) => { $of.$name() };
    (@ $of:ident $name:ident { $value:expr }) => { $value };
    ($type:ty: $this:ident $(.$part:tt)?; $($name:ident $(($($none:tt)?))? $({ $value:expr })?),+ $(,)?) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap as _;
                let $this = self;
                let of = &$this$(.$part)?;
                let mut members = serializer.serialize_map(None)?;
                $(
                    let value = &$crate::serialize_members!(@ of $name $(($($none)?))? $({ $value })?);
                    members.serialize_entry(stringify!($name), value)?;
                )+
                members.end()
            }
        }
    };
}
