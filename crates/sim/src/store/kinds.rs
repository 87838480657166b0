//! What a state is made of.

/// Declares `State`, a map of each kind by key; `Object` and `Kind`, one of any kind; and `Change`, what a journal
/// holds. Each line names the kind, its type, which has a function `key`, and the field of the state.
macro_rules! kinds {
    ($($kind:ident $type:ident $field:ident),* $(,)?) => {
        /// What is known.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct State {
            $(
                #[doc = concat!("By key: every ", stringify!($type), ".")]
                pub $field: std::collections::BTreeMap<String, $type>,
            )*
        }

        /// One object.
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "kind", content = "object")]
        pub enum Object {
            $(
                #[doc = concat!("A ", stringify!($type), ".")]
                $kind($type),
            )*
        }

        /// What an object is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum Kind {
            $(
                #[doc = concat!("A ", stringify!($type), ".")]
                $kind,
            )*
        }

        /// One change of the state.
        #[allow(clippy::large_enum_variant, reason = "there are few at a time")]
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum Change {
            /// The object is now as given.
            Put(Object),
            /// The object is gone.
            Remove {
                /// What it was.
                kind: Kind,
                /// Its key.
                key: String,
            },
        }

        impl State {
            /// Makes one change.
            pub fn apply(&mut self, change: Change) {
                match change {
                    $(
                        Change::Put(Object::$kind(object)) => {
                            self.$field.insert(object.key(), object);
                        }
                        Change::Remove { kind: Kind::$kind, key } => {
                            self.$field.remove(&key);
                        }
                    )*
                }
            }
        }

        impl $crate::store::Journaled for State {
            type Change = Change;

            fn apply(&mut self, change: Change) {
                Self::apply(self, change);
            }

            fn changes(&self) -> Vec<Change> {
                let mut changes = Vec::new();
                $(changes.extend(self.$field.values().cloned().map(Object::$kind).map(Change::Put));)*
                changes
            }
        }
    };
}

pub(crate) use kinds;
