//! Taking over an installation of WEKA's own plugin: what will work, what needs what, what is to be typed.
//!
//! Pure: [`Facts`] in, [`Report`] out. Who reads the cluster does it elsewhere, and needs no right but to read. No value of
//! a secret gets here: [`SecretState`] knows what is wrong with one, and nothing else.
//!
//! - `volumes`, `classes`: each object of the driver, and what it needs.
//! - `flags`: what the plugin's flags mean here.
//! - `manifest`: the instance that takes its place.
//! - `cleanup`: which objects the plugin leaves, in the order in which they are deleted.

mod classes;
mod cleanup;
mod facts;
mod flags;
mod manifest;
mod report;
mod secrets;
mod selinux;
#[cfg(test)]
mod tests;
mod volumes;

use clap::Command;
use serde_json::Value;
use stowage_api::driver_deployment::{ADOPT_ANNOTATION, OWNER_NAME_LABEL};

use flags::Settings;

pub use facts::{Binding, Facts, Workload, WorkloadKind};
pub use report::{Checked, Instance, LeftOut, PluginWorkload, Report, Step};
pub use secrets::{SecretName, SecretState};

/// What the instance of a taken over driver is called where nobody says.
const INSTANCE: &str = "csi-wekafs";

/// What a check goes by besides the cluster.
#[derive(Debug)]
pub struct Request<'a> {
    /// The instance that is to run the driver, if somebody chose one.
    pub instance: Option<Instance>,
    /// Every flag of `stowage driver weka`.
    pub flags: &'a Command,
    /// The documents of `deploy/samples/weka.yaml`: what an instance looks like where nothing carries over.
    pub sample: Vec<Value>,
}

/// Says what will happen to each object of a driver.
pub fn check(facts: &Facts, request: Request<'_>) -> Report {
    let plugin = facts.plugin_workloads();
    let instance = request.instance.unwrap_or_else(|| likely_instance(facts));
    let workloads: Vec<_> = plugin
        .iter()
        .map(|workload| flags::carry(workload, request.flags))
        .collect();
    let settings = Settings::of(&workloads);
    let volumes: Vec<_> = facts
        .volumes
        .iter()
        .map(|volume| volumes::check(volume, facts, &settings))
        .collect();
    let manifest = manifest::Plan {
        facts,
        instance: &instance,
        plugin: &plugin,
        workloads: &workloads,
        settings: &settings,
    };
    let manifest = manifest.write(request.sample);
    let classes = facts.classes.iter();
    let classes = classes.map(|class| classes::storage(class, facts, &settings));
    let snapshot_classes = facts.snapshot_classes.iter();
    let snapshot_classes = snapshot_classes.map(|class| classes::snapshot(class, facts));
    let snapshots = facts.snapshots.iter();
    let snapshots = snapshots.map(|content| volumes::snapshot(content, facts, &settings));
    let mut report = Report {
        driver: facts.driver.clone(),
        clear: true,
        needs: settings.mistakes.clone(),
        remarks: Vec::new(),
        volumes,
        classes: classes.collect(),
        snapshot_classes: snapshot_classes.collect(),
        snapshots: snapshots.collect(),
        steps: cleanup::steps(facts, &plugin, &instance),
        workloads,
        manifest,
        instance,
    };
    look_at_driver_object(facts, &mut report);
    let legacy = plugin.iter().find_map(|workload| workload.legacy_secret());
    let legacy = legacy.map(|secret| ("legacy volumes", secret));
    report.needs.extend(secrets::needs(facts, legacy));
    if plugin.is_empty() {
        report.remarks.push(format!(
            "no DaemonSet, Deployment or StatefulSet runs WEKA's plugin as driver `{}`: nothing is to be stopped, and no flag carries over",
            facts.driver
        ));
    }
    report.settle();
    report
}

/// In the namespace of the plugin; where that is gone, the one that its CSIDriver object was handed over to.
fn likely_instance(facts: &Facts) -> Instance {
    let named = |namespace: &str| Instance {
        namespace: namespace.to_owned(),
        name: INSTANCE.to_owned(),
    };
    if let Some(workload) = facts.plugin_workloads().first() {
        return named(&workload.namespace);
    }
    let promised = promised_to(facts).and_then(|text| text.parse().ok());
    promised.unwrap_or_else(|| named(INSTANCE))
}

/// Who is to take the CSIDriver object over.
fn promised_to(facts: &Facts) -> Option<&str> {
    let annotations = facts.csi_driver.as_ref()?.metadata.annotations.as_ref()?;
    annotations.get(ADOPT_ANNOTATION).map(String::as_str)
}

fn look_at_driver_object(facts: &Facts, report: &mut Report) {
    let Some(object) = &facts.csi_driver else {
        report.remarks.push(format!(
            "there is no CSIDriver object `{}`: the operator creates it",
            facts.driver
        ));
        return;
    };
    let metadata = &object.metadata;
    let label = metadata.labels.as_ref();
    if let Some(owner) = label.and_then(|labels| labels.get(OWNER_NAME_LABEL)) {
        report.remarks.push(format!(
            "the CSIDriver object `{}` belongs to the instance `{owner}` already",
            facts.driver
        ));
    }
    let wanted = report.instance.to_string();
    if let Some(other) = promised_to(facts).filter(|promised| *promised != wanted) {
        report.needs.push(format!(
            "the CSIDriver object `{}` is promised to the instance `{other}` by the annotation `{ADOPT_ANNOTATION}`: check that instance with `--instance {other}`, or remove the annotation",
            facts.driver
        ));
    }
}
