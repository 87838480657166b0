//! How node pods are replaced.

use std::time::Duration;

use serde_json::Value;
use stowage_api::driver_deployment::CSIDriverDeploymentSpec;

use super::field::Errors;
use super::name::is_qualified;
use crate::driver::valid::{DrainRules, Limit, UpdateStrategy};

const LIMIT: &str = "spec.maxUnavailableNodes";
const TIMEOUT: Duration = Duration::from_secs(1800);
const SETTLE: Duration = Duration::from_secs(30);

/// What was written about updates.
#[derive(Clone, Copy)]
enum Word {
    Draining,
    OnDelete,
    Rolling,
}

/// What makes new node pods, and what the operator does before it asks for them.
pub(super) fn updates(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
) -> (UpdateStrategy, Option<DrainRules>) {
    let words = [
        ("Draining", Word::Draining),
        ("OnDelete", Word::OnDelete),
        ("Rolling", Word::Rolling),
    ];
    let word = Some(spec.node_update_strategy.as_str());
    let word = errors.word("spec.nodeUpdateStrategy", word, &words, Word::Rolling);
    let limit = limit(errors, spec.max_unavailable_nodes.as_ref());
    let rules = rules(errors, spec, limit.unwrap_or(Limit::Nodes(1)));
    match word {
        Word::Rolling => (UpdateStrategy::Rolling(limit), None),
        Word::OnDelete => (UpdateStrategy::OnDelete, None),
        Word::Draining => (UpdateStrategy::OnDelete, Some(rules)),
    }
}

/// The taint with which nodes register.
pub(super) fn startup_taint(errors: &mut Errors, spec: &CSIDriverDeploymentSpec) -> Option<String> {
    let key = spec.startup_taint.clone()?;
    if !is_qualified(&key) {
        let detail = "must be the key of a taint, such as `startup.example.com/driver`: an optional domain and `/`, then up to 63 \
                      alphanumeric characters, '-', '_' or '.', starting and ending with an alphanumeric character";
        errors.invalid("spec.startupTaint", key.as_str(), detail);
    }
    Some(key)
}

fn limit(errors: &mut Errors, written: Option<&Value>) -> Option<Limit> {
    let written = written.filter(|it| !it.is_null())?;
    let percent = |text: &str| text.strip_suffix('%')?.parse::<u32>().ok();
    let limit = match written {
        Value::Number(number) => {
            let count = number.as_u64().and_then(|it| u32::try_from(it).ok());
            count.filter(|it| *it > 0).map(Limit::Nodes)
        }
        Value::String(text) => percent(text)
            .filter(|it| (1..=100).contains(it))
            .map(Limit::Percent),
        _ => None,
    };
    if limit.is_none() {
        let detail = "must be a number of nodes above 0, or a part of them from `1%` to `100%`";
        errors.invalid(LIMIT, written.clone(), detail);
    }
    limit
}

fn rules(errors: &mut Errors, spec: &CSIDriverDeploymentSpec, limit: Limit) -> DrainRules {
    let written = spec.node_drain.clone().unwrap_or_default();
    errors.unknown("spec.nodeDrain", &written.unknown);
    let mut seconds = |field: &str, written: Option<i32>, least: i32, usual: Duration| {
        let Some(seconds) = written else {
            return usual;
        };
        if seconds < least {
            let detail = format!("must be at least {least}");
            errors.invalid(format!("spec.nodeDrain.{field}"), seconds, detail);
        }
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let timeout = seconds("timeoutSeconds", written.timeout_seconds, 1, TIMEOUT);
    let settle = seconds("settleSeconds", written.settle_seconds, 0, SETTLE);
    let mut may = |field: &str, word: Option<&String>, yes: &'static str| {
        let mut words = [("Hold", false), (yes, true)];
        words.sort_unstable();
        let word = word.map(String::as_str);
        errors.word(format!("spec.nodeDrain.{field}"), word, &words, false)
    };
    DrainRules {
        limit,
        is_paused: written.paused.unwrap_or_default(),
        timeout,
        settle,
        evicts_bare_pods: may("barePods", written.bare_pods.as_ref(), "Evict"),
        evicts_empty_dirs: may("emptyDirPods", written.empty_dir_pods.as_ref(), "Evict"),
        ignores_daemon_sets: may("daemonSetPods", written.daemon_set_pods.as_ref(), "Ignore"),
    }
}
