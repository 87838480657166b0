//! Segments as text: there may be one for each node, so what they share is written once.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Row, Table};
use crate::intent::Segment;

/// How many sets are remembered: those of the classes that are in use at the moment.
const REMEMBERED: usize = 8;

/// Sets of segments that have been written before, newest last. A set of all nodes of a large cluster takes longer to
/// write down than all the rest of an intent, and a thousand intents share it.
#[derive(Debug, Default)]
pub(in super::super) struct KnownSets(Mutex<Vec<(Arc<[Segment]>, Row)>>);

impl KnownSets {
    /// The row of a set.
    pub(super) fn row(&self, segments: &Arc<[Segment]>) -> serde_json::Result<Row> {
        let known = |known: &(Arc<[Segment]>, Row)| {
            Arc::ptr_eq(&known.0, segments).then(|| known.1.clone())
        };
        if let Some(row) = self.0.lock().iter().find_map(known) {
            return Ok(row);
        }
        let row = Row::of(Table::Topologies, &runs(segments))?;
        let mut sets = self.0.lock();
        if sets.len() == REMEMBERED {
            sets.remove(0);
        }
        sets.push((Arc::clone(segments), row.clone()));
        Ok(row)
    }
}

/// Neighbours with the same keys. Segments mostly differ in their values only, and there may be one per node.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(rename = "k")]
    keys: Vec<String>,
    #[serde(rename = "v")]
    values: Vec<Vec<String>>,
}

fn runs(segments: &[Segment]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for segment in segments {
        let values = segment.values().cloned().collect();
        match runs.last_mut() {
            Some(run) if run.keys.iter().eq(segment.keys()) => run.values.push(values),
            _ => runs.push(Run {
                keys: segment.keys().cloned().collect(),
                values: vec![values],
            }),
        }
    }
    runs
}

/// `None`: the numbers of keys and values differ.
pub(super) fn segments(runs: Vec<Run>) -> Option<Arc<[Segment]>> {
    let mut segments = Vec::new();
    for Run { keys, values } in runs {
        for values in values {
            if values.len() != keys.len() {
                return None;
            }
            segments.push(keys.iter().cloned().zip(values).collect());
        }
    }
    Some(segments.into())
}
