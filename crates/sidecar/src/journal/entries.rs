//! The entries of a journal, what they share, and how much room they take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{self, KnownSets, Row, Table, Unreadable, pack};
use crate::intent::{Intent, Origin};

/// What a journal without entries takes, and a bit.
const ENVELOPE: usize = 100;
/// Quotes, colon and comma around the parts of a row.
const AROUND_ROW: usize = 4;
/// The comma behind an entry.
const AROUND_ENTRY: usize = 1;

/// An intent with its text.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) intent: Intent,
    /// None: written by a program that did not say.
    pub(super) origin: Option<Origin>,
    /// This process recorded it, rather than found it.
    pub(super) ours: bool,
    text: String,
    rows: Vec<Row>,
    /// Of the text alone.
    weight: usize,
}

impl Kept {
    /// An intent of this process.
    pub(super) fn ours(
        intent: Intent,
        origin: Origin,
        known: &KnownSets,
    ) -> Result<Self, Arc<serde_json::Error>> {
        let kept = Self::new(intent, Some(origin), known).map_err(Arc::new)?;
        Ok(Self { ours: true, ..kept })
    }

    fn new(intent: Intent, origin: Option<Origin>, known: &KnownSets) -> serde_json::Result<Self> {
        let (text, rows) = document::encode(&intent, origin.as_ref(), known)?;
        Ok(Self {
            intent,
            origin,
            ours: false,
            weight: pack::weight(&text),
            text,
            rows,
        })
    }

    /// It turned out to take more than it was taken for.
    pub(super) fn take_for_heavier(&mut self) {
        self.weight *= 2;
    }

    pub(super) fn uid(&self) -> &str {
        &self.intent.claim.uid
    }
}

/// All entries. Clones are cheap, so that a change can be tried out.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    by_claim: BTreeMap<Arc<str>, Arc<Kept>>,
    rows: BTreeMap<(Table, Arc<str>), Shared>,
    size: Size,
}

/// How much room entries take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Not less than the length of the text, before it is packed.
    pub(super) bytes: usize,
    /// The sum of what all parts take once they are packed: mostly more than the length of the packed text, because
    /// parts resemble each other.
    pub(super) weight: usize,
}

impl Size {
    fn add(&mut self, bytes: usize, weight: usize) {
        self.bytes += bytes;
        self.weight += weight;
    }

    fn take_away(&mut self, bytes: usize, weight: usize) {
        self.bytes -= bytes;
        self.weight -= weight;
    }
}

/// A row, and how many entries refer to it.
#[derive(Clone, Debug)]
struct Shared {
    text: Arc<str>,
    weight: usize,
    uses: usize,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            by_claim: BTreeMap::new(),
            rows: BTreeMap::new(),
            size: Size {
                bytes: ENVELOPE,
                weight: ENVELOPE,
            },
        }
    }
}

impl Entries {
    /// Reads a journal's text; no text is an empty journal.
    pub(super) fn read(text: Option<&str>) -> Result<Self, Unreadable> {
        let mut entries = Self::default();
        let known = KnownSets::default();
        let intents = text.map(document::decode).transpose()?;
        for (intent, origin) in intents.unwrap_or_default() {
            entries.insert(Kept::new(intent, origin, &known)?);
        }
        Ok(entries)
    }

    /// The journal's text, as it is stored.
    pub(super) fn text(&self) -> String {
        let rows = |table| {
            let of_table = self.rows.iter().filter(move |((of, _), _)| *of == table);
            let pairs = of_table.map(|((_, id), row)| (&**id, &*row.text));
            Box::new(pairs) as Box<dyn Iterator<Item = _>>
        };
        let by_claim = self.by_claim.values().map(|kept| kept.text.as_str());
        pack::pack(document::compose(rows, by_claim, self.size.bytes))
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn len(&self) -> usize {
        self.by_claim.len()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&Kept> {
        self.by_claim.get(uid).map(|kept| &**kept)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.by_claim.values().map(|kept| &**kept)
    }

    /// Adds an entry; the one for the same claim goes.
    pub(super) fn insert(&mut self, mut kept: Kept) {
        self.remove(kept.uid());
        for row in &mut kept.rows {
            let key = (row.table, Arc::clone(&row.id));
            let size = &mut self.size;
            let shared = self.rows.entry(key).or_insert_with(|| {
                size.add(row_bytes(&row.id, &row.text), row.weight);
                Shared {
                    text: Arc::clone(&row.text),
                    weight: row.weight,
                    uses: 0,
                }
            });
            shared.uses += 1;
            // One copy in memory as well: a topology of thousands of nodes is not small.
            row.text = Arc::clone(&shared.text);
        }
        self.size.add(kept.text.len() + AROUND_ENTRY, kept.weight);
        self.by_claim.insert(kept.uid().into(), Arc::new(kept));
    }

    /// Removes an entry; says whether it was there.
    pub(super) fn remove(&mut self, uid: &str) -> bool {
        let Some(kept) = self.by_claim.remove(uid) else {
            return false;
        };
        self.size
            .take_away(kept.text.len() + AROUND_ENTRY, kept.weight);
        for row in &kept.rows {
            let key = (row.table, Arc::clone(&row.id));
            if let Some(shared) = self.rows.get_mut(&key) {
                shared.uses -= 1;
                if shared.uses == 0 {
                    let weight = shared.weight;
                    self.rows.remove(&key);
                    self.size.take_away(row_bytes(&row.id, &row.text), weight);
                }
            }
        }
        true
    }

    /// What the entries would take with this entry, or a little more.
    pub(super) fn size_with(&self, kept: &Kept) -> Size {
        let mut size = self.size;
        let known = |row: &&Row| self.rows.contains_key(&(row.table, Arc::clone(&row.id)));
        for row in kept.rows.iter().filter(|row| !known(row)) {
            size.add(row_bytes(&row.id, &row.text), row.weight);
        }
        if let Some(old) = self.get(kept.uid()) {
            size.take_away(old.text.len() + AROUND_ENTRY, old.weight);
        }
        size.add(kept.text.len() + AROUND_ENTRY, kept.weight);
        size
    }

    /// The entry is ours from now on: another process that drops it drops only its own copy.
    pub(super) fn adopt(&mut self, uid: &str) {
        if let Some(kept) = self.by_claim.get_mut(uid) {
            Arc::make_mut(kept).ours = true;
        }
    }

    /// Takes over what another process wrote: its entries and ours, but none that we have just dropped. An entry
    /// that is not ours and that it dropped goes.
    pub(super) fn merge(&mut self, theirs: Self, dropped: impl Fn(&str) -> bool) {
        let before = std::mem::replace(self, theirs);
        let ours = before.by_claim.into_values().filter(|kept| kept.ours);
        for kept in ours {
            self.insert(Arc::unwrap_or_clone(kept));
        }
        let unwanted: Vec<_> = self
            .by_claim
            .keys()
            .filter(|uid| dropped(uid))
            .cloned()
            .collect();
        for uid in unwanted {
            self.remove(&uid);
        }
    }
}

fn row_bytes(id: &str, text: &str) -> usize {
    id.len() + text.len() + AROUND_ROW
}
