//! Segments as text: there may be one for each node, so what they share is written once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::intent::Segment;

/// Neighbours with the same keys. Segments mostly differ in their values only, and there may be one per node.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(rename = "k")]
    keys: Vec<String>,
    #[serde(rename = "v")]
    values: Vec<Vec<String>>,
}

pub(super) fn runs(segments: &[Segment]) -> Vec<Run> {
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
