//! Enums whose variants have names in JSON, in the database and in commands.

/// Defines an enum whose variants have names, with a list of all variants and the conversions from and to the names.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// Every variant, in the order of the definition.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in JSON, in the database and in commands.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::values::faults::InvalidValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = Self::ALL.into_iter().find(|value| value.as_str() == text);
                named.ok_or_else(|| {
                    $crate::values::as_text::must_be_one_of(Self::ALL.into_iter().map(Self::as_str))
                })
            }
        }

        $crate::values::as_text::written_as_text!($type, |value| value.as_str());
    };
}

pub(crate) use named_enum;
