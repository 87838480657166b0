//! The journal as text: compact, because all of it is sent with each write.
//!
//! ```json
//! {"version":2,
//!  "classes":{"<id>":{..}}, "topologies":{"<id>":[{"k":[..],"v":[[..],..]}]}, "secrets":{..}, "attributes":{..},
//!  "entries":[{"n":"<namespace>","c":"<claim>","u":"<uid>","v":"<volume>","l":"<class id>",..}]}
//! ```
//!
//! What many entries have in common is stored once, under a hash of its own text. A text that is no longer short is
//! compressed: [`pack`]. Any change of the format is a new version: a program that ignored half of an entry would make
//! another call than the one that was under way. Version 1, which is read too, had no `w` and `o` and was never compressed.

pub(super) mod pack;
mod topology;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub(super) use self::topology::KnownSets;
use self::topology::{Run, segments};
use crate::cluster::volume::ClaimKey;
use crate::intent::{
    AttributesClass, ClassFacts, FrozenTopology, Intent, Origin, Secrets, Segment, Source,
};

const VERSION: u32 = 2;
const OLDEST: u32 = 1;

/// The content of a Lease that cannot be read as a journal.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A newer program wrote it, or somebody else.
    #[error(
        "it is a journal of version {0}, but this program reads versions {OLDEST} to {VERSION}"
    )]
    Version(u32),
    /// It is damaged.
    #[error("it is damaged")]
    Damaged(#[from] serde_json::Error),
    /// What is compressed is not what it should be.
    #[error("it is damaged: {0}")]
    Packed(&'static str),
    /// A part of it is missing.
    #[error("the entry for claim uid `{uid}` refers to {missing} that is not there")]
    Incomplete {
        /// Of the claim.
        uid: String,
        /// What it is.
        missing: &'static str,
    },
    /// Keys and values do not match.
    #[error("topology `{0}` has more or fewer values than keys")]
    Uneven(String),
}

/// What entries share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Classes,
    Topologies,
    Secrets,
    Attributes,
}

impl Table {
    pub(super) const ALL: [Self; 4] = [
        Self::Classes,
        Self::Topologies,
        Self::Secrets,
        Self::Attributes,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Topologies => "topologies",
            Self::Secrets => "secrets",
            Self::Attributes => "attributes",
        }
    }
}

/// A line of a table, found by a hash of its text.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) table: Table,
    pub(super) id: Arc<str>,
    pub(super) text: Arc<str>,
    /// What it takes in the stored text, or a little more.
    pub(super) weight: usize,
}

impl Row {
    pub(super) fn of(table: Table, content: &impl Serialize) -> serde_json::Result<Self> {
        let text = serde_json::to_string(content)?;
        Ok(Self {
            table,
            id: digest(&text).into(),
            weight: pack::weight(&text),
            text: text.into(),
        })
    }
}

/// A short hash.
pub(super) fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// One intent as text, with references to what it shares.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "n")]
    namespace: String,
    #[serde(rename = "c")]
    claim: String,
    #[serde(rename = "u")]
    uid: String,
    #[serde(rename = "v")]
    volume: String,
    #[serde(rename = "b")]
    bytes: i64,
    #[serde(rename = "m")]
    access_modes: Vec<String>,
    #[serde(rename = "k")]
    csi_modes: Vec<i32>,
    #[serde(rename = "d", default, skip_serializing_if = "is_false")]
    block: bool,
    #[serde(rename = "r", default, skip_serializing_if = "is_false")]
    read_only: bool,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(rename = "l")]
    class: String,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    topology: Option<(String, usize)>,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    secrets: Option<String>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    attributes: Option<String>,
    /// In seconds since 1970.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    written: Option<u64>,
    /// The cluster.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// An intent's own text, and the rows that it refers to.
pub(super) fn encode(
    intent: &Intent,
    origin: Option<&Origin>,
    known: &KnownSets,
) -> serde_json::Result<(String, Vec<Row>)> {
    let mut rows = vec![Row::of(Table::Classes, &*intent.class)?];
    let class = rows[0].id.to_string();
    let mut refer = |row: Row| {
        let id = row.id.to_string();
        rows.push(row);
        id
    };
    let topology = match &intent.topology {
        Some(frozen) => {
            let row = known.row(&frozen.segments)?;
            Some((refer(row), frozen.first))
        }
        None => None,
    };
    let secrets = match &intent.secrets {
        none if *none == Secrets::default() => None,
        some => Some(refer(Row::of(Table::Secrets, some)?)),
    };
    let attributes = match &intent.attributes {
        Some(attributes) => Some(refer(Row::of(Table::Attributes, attributes)?)),
        None => None,
    };
    let entry = Entry {
        namespace: intent.claim.namespace.clone(),
        claim: intent.claim.name.clone(),
        uid: intent.claim.uid.clone(),
        volume: intent.volume.clone(),
        bytes: intent.bytes,
        access_modes: intent.access_modes.clone(),
        csi_modes: intent.csi_modes.clone(),
        block: intent.block,
        read_only: intent.read_only,
        source: intent.source.clone(),
        class,
        topology,
        secrets,
        attributes,
        written: origin.map(|origin| origin.written),
        cluster: origin.and_then(|origin| origin.cluster.clone()),
    };
    Ok((serde_json::to_string(&entry)?, rows))
}

/// The whole text of rows (in the order of their tables) and entries.
pub(super) fn compose<'a>(
    rows: impl Fn(Table) -> Box<dyn Iterator<Item = (&'a str, &'a str)> + 'a>,
    entries: impl Iterator<Item = &'a str>,
    bytes: usize,
) -> String {
    let mut text = String::with_capacity(bytes);
    let _ = write!(text, "{{\"version\":{VERSION}");
    for table in Table::ALL {
        let _ = write!(text, ",\"{}\":{{", table.name());
        for (at, (id, row)) in rows(table).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\"{id}\":{row}");
        }
        text.push('}');
    }
    text.push_str(",\"entries\":[");
    for (at, entry) in entries.enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(entry);
    }
    text.push_str("]}");
    text
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[allow(dead_code, reason = "read before the rest, as `Versioned`")]
    version: u32,
    classes: HashMap<String, ClassFacts>,
    topologies: HashMap<String, Vec<Run>>,
    secrets: HashMap<String, Secrets>,
    attributes: HashMap<String, AttributesClass>,
    entries: Vec<Entry>,
}

/// Reads a journal's text, as it is stored.
pub(super) fn decode(text: &str) -> Result<Vec<(Intent, Option<Origin>)>, Unreadable> {
    let Versioned { version } = serde_json::from_str(text)?;
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(Unreadable::Version(version));
    }
    let document: Document = match pack::unpack(text)? {
        Some(text) => serde_json::from_str(&text)?,
        None => serde_json::from_str(text)?,
    };
    let mut topologies = HashMap::new();
    for (id, runs) in document.topologies {
        let segments = segments(runs).ok_or_else(|| Unreadable::Uneven(id.clone()))?;
        topologies.insert(id, segments);
    }
    let shared = Shared {
        classes: document
            .classes
            .into_iter()
            .map(|(id, class)| (id, Arc::new(class)))
            .collect(),
        topologies,
        secrets: document.secrets,
        attributes: document.attributes,
    };
    let entries = document.entries.into_iter();
    let read = |entry: Entry| {
        let cluster = entry.cluster.clone();
        let origin = entry.written.map(|written| Origin { written, cluster });
        Ok((shared.intent(entry)?, origin))
    };
    entries.map(read).collect()
}

/// The tables, read.
struct Shared {
    classes: HashMap<String, Arc<ClassFacts>>,
    topologies: HashMap<String, Arc<[Segment]>>,
    secrets: HashMap<String, Secrets>,
    attributes: HashMap<String, AttributesClass>,
}

impl Shared {
    fn intent(&self, entry: Entry) -> Result<Intent, Unreadable> {
        let uid = entry.uid.clone();
        let missing = |missing| Unreadable::Incomplete {
            uid: uid.clone(),
            missing,
        };
        let class = self.classes.get(&entry.class).cloned();
        let topology = match entry.topology {
            Some((id, first)) => {
                let segments = self.topologies.get(&id).cloned();
                let segments = segments.ok_or_else(|| missing("a topology"))?;
                if first >= segments.len().max(1) {
                    return Err(missing("a segment"));
                }
                Some(FrozenTopology { segments, first })
            }
            None => None,
        };
        let secrets = match entry.secrets {
            Some(id) => self.secrets.get(&id).cloned(),
            None => Some(Secrets::default()),
        };
        let attributes = match entry.attributes {
            Some(id) => {
                let attributes = self.attributes.get(&id).cloned();
                Some(attributes.ok_or_else(|| missing("an attributes class"))?)
            }
            None => None,
        };
        Ok(Intent {
            claim: ClaimKey {
                namespace: entry.namespace,
                name: entry.claim,
                uid: entry.uid,
            },
            volume: entry.volume,
            bytes: entry.bytes,
            access_modes: entry.access_modes,
            csi_modes: entry.csi_modes,
            block: entry.block,
            read_only: entry.read_only,
            source: entry.source,
            topology,
            class: class.ok_or_else(|| missing("a class"))?,
            attributes,
            secrets: secrets.ok_or_else(|| missing("secrets"))?,
        })
    }
}
