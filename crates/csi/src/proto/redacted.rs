//! How secrets look in a log line. Used by the `Debug` code that the build script writes.

use std::collections::BTreeMap;
use std::fmt;

use super::SERVICE_ACCOUNT_TOKENS;

/// Shows whether there are secrets, neither their values nor their keys: a key can name a user.
pub struct Secrets<'a>(pub &'a BTreeMap<String, String>);

impl fmt::Debug for Secrets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "{}" } else { "***" })
    }
}

/// Shows a volume context except for the tokens in it.
pub struct Context<'a>(pub &'a BTreeMap<String, String>);

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |key: &str| key == SERVICE_ACCOUNT_TOKENS;
        let entries = self
            .0
            .iter()
            .map(|(key, value)| (key, if hidden(key) { "***" } else { value }));
        f.debug_map().entries(entries).finish()
    }
}
