//! The Lease in which a sidecar writes down what it is about to make: how others find it, and what they may read of it.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The annotation with the journal.
pub const CONTENT: &str = "stowage.dev/intents";
/// The annotation with the driver's name.
pub const DRIVER: &str = "stowage.dev/driver";
/// The annotation with the node, where each node has a journal.
pub const NODE: &str = "stowage.dev/node";

/// The part of a journal that has stayed the same in all versions.
#[derive(Deserialize)]
struct Journal {
    #[serde(rename = "deflate")]
    compressed: Option<IgnoredAny>,
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "n")]
    namespace: String,
    #[serde(rename = "c")]
    claim: String,
}

/// The claims, as `namespace/name`, for which a journal says that a volume is being made. `None`: there are some, and only a sidecar
/// can tell which.
pub fn claims(content: &str) -> Option<Vec<String>> {
    let journal: Journal = serde_json::from_str(content).ok()?;
    if journal.compressed.is_some() {
        return None;
    }
    let entries = journal.entries.into_iter();
    Some(
        entries
            .map(|it| format!("{}/{}", it.namespace, it.claim))
            .collect(),
    )
}
