//! Mistakes, in the words of the Kubernetes API: `path: kind: value: detail`.

use std::fmt;

use serde_json::Value;

/// One mistake in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, such as `spec.storageClassTemplates[0].metadata.name`.
    pub path: String,
    /// What is wrong with it.
    pub mistake: Mistake,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Mistake {
    /// The value cannot be used.
    Invalid {
        /// The value.
        value: Value,
        /// Why not.
        detail: String,
    },
    /// The value is none of a fixed set.
    Unsupported {
        /// The value.
        value: Value,
        /// The set, sorted.
        supported: Vec<&'static str>,
    },
    /// The value must be there and is not.
    Required {
        /// What for.
        detail: String,
    },
    /// The value must be there once.
    Duplicate {
        /// The value.
        value: Value,
    },
    /// The value is too long.
    TooLong {
        /// How long it may be.
        limit: usize,
        /// Why, where that is not obvious.
        detail: String,
    },
    /// The field must not be there.
    Forbidden {
        /// Why not.
        detail: String,
    },
}

/// The order in which fields are reported; those of 2018 come first.
const ORDER: [&str; 11] = [
    "spec.driverName",
    "spec.driverPerNodeTemplate",
    "spec.driverControllerTemplate",
    "spec.driverSocket",
    "spec.storageClassTemplates",
    "spec.nodeUpdateStrategy",
    "spec.containerImages",
    "spec.managementState",
    "spec.probePeriodSeconds",
    "spec.probeTimeoutSeconds",
    "metadata",
];

/// How much of a value a message shows.
const SHOWN: usize = 80;

/// A value as it is shown in messages.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        return text;
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start}...")
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match &self.mistake {
            Mistake::Invalid { value, detail } => {
                write!(f, "Invalid value: {}: {detail}", shown(value))
            }
            Mistake::Unsupported { value, supported } => {
                let supported: Vec<_> = supported.iter().map(|it| format!("\"{it}\"")).collect();
                let supported = supported.join(", ");
                write!(
                    f,
                    "Unsupported value: {}: supported values: {supported}",
                    shown(value)
                )
            }
            Mistake::Required { detail } => write!(f, "Required value: {detail}"),
            Mistake::Duplicate { value } => write!(f, "Duplicate value: {}", shown(value)),
            Mistake::TooLong { limit, detail } => {
                write!(f, "Too long: must have at most {limit} characters{detail}")
            }
            Mistake::Forbidden { detail } => write!(f, "Forbidden: {detail}"),
        }
    }
}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    fn push(&mut self, path: impl Into<String>, mistake: Mistake) {
        let path = path.into();
        self.0.push(FieldError { path, mistake });
    }

    pub(super) fn invalid(
        &mut self,
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        let (value, detail) = (value.into(), detail.into());
        self.push(path, Mistake::Invalid { value, detail });
    }

    pub(super) fn required(&mut self, path: impl Into<String>, detail: &str) {
        let detail = detail.to_owned();
        self.push(path, Mistake::Required { detail });
    }

    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        let value = value.into();
        self.push(path, Mistake::Duplicate { value });
    }

    pub(super) fn too_long(&mut self, path: impl Into<String>, limit: usize, detail: &str) {
        let detail = detail.to_owned();
        self.push(path, Mistake::TooLong { limit, detail });
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, detail: impl Into<String>) {
        let detail = detail.into();
        self.push(path, Mistake::Forbidden { detail });
    }

    /// One of a fixed set of words, given in alphabetical order. A missing one is the first of `fallback`.
    pub(super) fn word<T: Copy>(
        &mut self,
        path: impl Into<String>,
        value: Option<&str>,
        words: &[(&'static str, T)],
        fallback: T,
    ) -> T {
        let Some(value) = value else {
            return fallback;
        };
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == value) {
            return *meaning;
        }
        let supported = words.iter().map(|(word, _)| *word).collect();
        let value = value.into();
        self.push(path, Mistake::Unsupported { value, supported });
        fallback
    }

    /// Fields that this version does not know. Null is as good as absent.
    pub(super) fn unknown(&mut self, path: &str, fields: &stowage_api::driver_deployment::Unknown) {
        for (name, value) in fields {
            if !value.is_null() {
                self.forbidden(format!("{path}.{name}"), "unknown field");
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mistakes in the order of the fields, not in the order in which checks happen to need each other.
    pub(super) fn into_vec(mut self) -> Vec<FieldError> {
        let place = |error: &FieldError| {
            let is_field = |field: &&str| error.path.starts_with(*field);
            ORDER.iter().position(is_field).unwrap_or(ORDER.len())
        };
        self.0.sort_by_key(place);
        self.0
    }
}
