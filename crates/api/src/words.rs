//! Words that fields of custom resources take.
//!
//! A word that is not known is kept as it is: an object must be readable whoever wrote it, and be written back unchanged.

/// Declares words; the first is what a missing one means. `closed` words are an enum in the schema as well, so that a
/// server refuses others.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident $(: $closed:ident)? { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A word that this version does not know.
            Other(String),
        }

        impl $name {
            /// Every known word, in the order of the life of what it is about.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word itself.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from("")
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    "" => Self::from(Self::WORDS[0]),
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word: Option<String> = ::serde::Deserialize::deserialize(from)?;
                Ok(Self::from(word.as_deref().unwrap_or_default()))
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $crate::words::words!(@schema $($closed)? Self::WORDS)
            }
        }
    };
    (@schema closed $words:expr) => {
        ::schemars::json_schema!({"type": "string", "enum": $words})
    };
    (@schema $words:expr) => {
        ::schemars::json_schema!({"type": "string", "nullable": true})
    };
}

pub(crate) use words;
