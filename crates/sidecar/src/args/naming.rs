//! The names that a driver is given.

use super::ArgsError;

/// How the names that a driver is given follow from the uids of objects.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    prefix: String,
    /// How many characters of the uid, without dashes. `None`: the whole uid as it is.
    length: Option<usize>,
}

impl Naming {
    pub(super) fn new(
        flags: [&'static str; 2],
        prefix: &str,
        length: i16,
    ) -> Result<Self, ArgsError> {
        let [prefix_flag, length_flag] = flags;
        if prefix.is_empty() {
            return Err(ArgsError::NamePrefix(prefix_flag));
        }
        let length = match length {
            -1 => None,
            length @ 1..=32 => Some(length.unsigned_abs().into()),
            other => return Err(ArgsError::NameLength(length_flag, other)),
        };
        let prefix = prefix.to_owned();
        Ok(Self { prefix, length })
    }

    /// It follows from the uid alone, so that everybody finds the same one.
    pub(crate) fn name(&self, uid: &str) -> String {
        let prefix = &self.prefix;
        match self.length {
            None => format!("{prefix}-{uid}"),
            Some(length) => {
                let digits: String = uid.chars().filter(|c| *c != '-').take(length).collect();
                format!("{prefix}-{digits}")
            }
        }
    }
}
