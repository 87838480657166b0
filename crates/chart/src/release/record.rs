//! Releases between commands: what one consists of is kept in its namespace.

use serde_json::{Value, json};

use super::{Kubectl, Revision};
use crate::chart::Chart;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Object};
use crate::render::Identity;

/// On what is kept about a release.
const RECORD_LABEL: &str = "stowage.dev/chart-release";

impl Kubectl {
    /// `helm upgrade --install --create-namespace`. What the release consists of is kept in its namespace.
    pub fn upgrade_or_install(
        &self,
        chart: &Chart,
        own: &Value,
        of: &Identity,
    ) -> Result<Revision> {
        self.ensure_namespace(&of.namespace)?;
        let new = match self.recorded(of)?.pop() {
            Some(old) => self.upgrade(&old, chart, own)?,
            None => self.install(chart, own, of)?,
        };
        self.record(&new)?;
        Ok(new)
    }

    /// `helm rollback` to a revision; none is the one before the current one.
    pub fn roll_back_to(&self, of: &Identity, revision: Option<u32>) -> Result<Revision> {
        let mut revisions = self.recorded(of)?;
        let current = revisions.pop();
        let target = match revision {
            None => revisions.pop(),
            Some(revision) => {
                let mut found = revisions.into_iter();
                found.find(|it| it.identity.revision == revision)
            }
        };
        let (Some(current), Some(target)) = (current, target) else {
            return Err(Error::Refused(format!(
                "release {} has no such revision to go back to",
                of.name
            )));
        };
        let new = self.roll_back(&current, &target)?;
        self.record(&new)?;
        Ok(new)
    }

    /// `helm uninstall`, with what was kept about the release.
    pub fn uninstall_release(&self, of: &Identity) -> Result<()> {
        let Some(current) = self.recorded(of)?.pop() else {
            return Err(Error::Refused(format!(
                "release {} is not found in {}",
                of.name, of.namespace
            )));
        };
        self.uninstall(&current)?;
        let namespace = format!("--namespace={}", of.namespace);
        let labelled = format!("--selector={RECORD_LABEL}={}", of.name);
        self.capture(&["delete", "configmap", &namespace, &labelled])?;
        Ok(())
    }

    fn record(&self, revision: &Revision) -> Result<()> {
        let of = &revision.identity;
        let record = Object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("chart-release.{}.v{}", of.name, of.revision), "namespace": of.namespace,
                "labels": {RECORD_LABEL: of.name},
            },
            "data": {
                "revision": of.revision.to_string(), "notes": revision.notes,
                "objects": json!(revision.manifest.all()).to_string(),
            },
        }));
        self.feed(of, &["apply", "--filename=-"], &record)
    }

    /// The revisions of a release, the current one last.
    fn recorded(&self, of: &Identity) -> Result<Vec<Revision>> {
        let namespace = format!("--namespace={}", of.namespace);
        let labelled = format!("--selector={RECORD_LABEL}={}", of.name);
        let text = self.capture(&["get", "configmap", &namespace, &labelled, "--output=json"])?;
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        let mut revisions = Vec::new();
        for item in list["items"].as_array().into_iter().flatten() {
            let data = |name: &str| item["data"][name].as_str().unwrap_or_default();
            let objects: Vec<Value> = serde_json::from_str(data("objects")).unwrap_or_default();
            revisions.push(Revision {
                identity: Identity {
                    revision: data("revision").parse().unwrap_or_default(),
                    ..of.clone()
                },
                manifest: Manifest::of_objects(objects)?,
                notes: data("notes").to_owned(),
            });
        }
        revisions.sort_by_key(|it| it.identity.revision);
        Ok(revisions)
    }
}
