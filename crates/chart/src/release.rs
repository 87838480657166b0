//! Releases on a cluster, by kubectl, in the order in which Helm does it.
//!
//! What Helm would refuse is refused here: objects of others, values that the schema does not allow, hooks that fail.

mod ownership;
mod record;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use devcluster::kubernetes::kubectl;
use devcluster::process::{capture, feed};
use serde_json::{Value, json};

use self::ownership::owned;
use crate::chart::Chart;
use crate::error::{Error, Result};
use crate::manifest::{Hook, Manifest, Object};
use crate::render::{Identity, Lookup, render};

/// How often a hook is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// A cluster, as kubectl reaches it.
#[derive(Clone, Debug)]
pub struct Kubectl {
    /// The program.
    pub program: PathBuf,
    /// The way to the cluster.
    pub kubeconfig: PathBuf,
    /// How long a hook may take.
    pub patience: Duration,
}

/// One state of a release.
#[derive(Clone, Debug)]
pub struct Revision {
    /// What it is called.
    pub identity: Identity,
    /// What it consists of.
    pub manifest: Manifest,
    /// What the person is told.
    pub notes: String,
}

impl Kubectl {
    /// `helm install --create-namespace`.
    pub fn install(&self, chart: &Chart, own: &Value, of: &Identity) -> Result<Revision> {
        let new = self.rendered(chart, own, of.clone())?;
        self.ensure_namespace(&of.namespace)?;
        for object in &new.manifest.objects {
            self.refuse_foreign(object, of)?;
        }
        self.run_hooks(&new, "pre-install")?;
        self.apply(&new)?;
        self.run_hooks(&new, "post-install")?;
        Ok(new)
    }

    /// `helm upgrade`: what the old revision has and the new one has not goes last.
    pub fn upgrade(&self, old: &Revision, chart: &Chart, own: &Value) -> Result<Revision> {
        let identity = Identity {
            revision: old.identity.revision + 1,
            ..old.identity.clone()
        };
        let new = self.rendered(chart, own, identity)?;
        for object in &new.manifest.objects {
            if old.manifest.same(object).is_none() {
                self.refuse_foreign(object, &new.identity)?;
            }
        }
        self.change(old, &new, "pre-upgrade", "post-upgrade")?;
        Ok(new)
    }

    /// `helm rollback`: with the hooks of the revision that comes back. An object that the current revision has not must not be there.
    pub fn roll_back(&self, current: &Revision, target: &Revision) -> Result<Revision> {
        let mut target = target.clone();
        target.identity.revision = current.identity.revision + 1;
        for object in &target.manifest.objects {
            if current.manifest.same(object).is_none() {
                self.refuse_present(object, &target.identity)?;
            }
        }
        self.change(current, &target, "pre-rollback", "post-rollback")?;
        Ok(target)
    }

    /// `helm uninstall`. A hook that fails leaves everything as it is.
    pub fn uninstall(&self, release: &Revision) -> Result<()> {
        self.run_hooks(release, "pre-delete")?;
        for object in release.manifest.objects.iter().rev() {
            self.delete(object, &release.identity)?;
        }
        self.run_hooks(release, "post-delete")
    }

    fn change(
        &self,
        old: &Revision,
        new: &Revision,
        before: &'static str,
        after: &'static str,
    ) -> Result<()> {
        self.run_hooks(new, before)?;
        self.apply(new)?;
        for object in &old.manifest.objects {
            if new.manifest.same(object).is_none() {
                self.delete(object, &old.identity)?;
            }
        }
        self.run_hooks(new, after)
    }

    fn rendered(&self, chart: &Chart, own: &Value, identity: Identity) -> Result<Revision> {
        let rendered = render(chart, own, &identity, self.lookup())?;
        Ok(Revision {
            manifest: Manifest::of(&rendered)?,
            notes: rendered.notes,
            identity,
        })
    }

    /// `lookup` of templates.
    fn lookup(&self) -> Lookup {
        let kubectl = self.clone();
        Arc::new(move |version, kind, namespace, name| {
            let object = Object(json!({
                "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
            }));
            kubectl.get(&object, namespace).ok().flatten()
        })
    }

    fn apply(&self, new: &Revision) -> Result<()> {
        for object in &new.manifest.objects {
            let owned = owned(object, &new.identity);
            self.feed(&new.identity, &["apply", "--filename=-"], &owned)?;
        }
        Ok(())
    }

    fn run_hooks(&self, release: &Revision, event: &'static str) -> Result<()> {
        for hook in release.manifest.hooks_at(event) {
            if hook.deleted.iter().any(|it| it == "before-hook-creation") {
                self.delete(&hook.object, &release.identity)?;
            }
            self.feed(&release.identity, &["create", "--filename=-"], &hook.object)?;
            self.await_hook(hook, &release.identity)
                .map_err(|reason| Error::Hook {
                    event,
                    hook: hook.object.title(),
                    reason,
                })?;
        }
        for hook in release.manifest.hooks_at(event) {
            if hook.deleted.iter().any(|it| it == "hook-succeeded") {
                self.delete(&hook.object, &release.identity)?;
            }
        }
        Ok(())
    }

    /// Jobs are waited for; other objects are done when they are there.
    fn await_hook(&self, hook: &Hook, of: &Identity) -> std::result::Result<(), String> {
        if hook.object.kind() != "Job" {
            return Ok(());
        }
        let started = Instant::now();
        let mut state = "is not done in time";
        while started.elapsed() < self.patience {
            let live = self
                .get(&hook.object, &of.namespace)
                .map_err(|error| error.to_string())?;
            let live = live.unwrap_or_default();
            let conditions = live["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let is = |kind: &str| {
                conditions
                    .clone()
                    .any(|it| it["type"] == kind && it["status"] == "True")
            };
            if is("Complete") {
                return Ok(());
            }
            if is("Failed") {
                state = "failed";
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        let namespace = format!("--namespace={}", of.namespace);
        let said = self.capture(&["logs", &hook.object.title(), &namespace, "--tail=20"]);
        let said = said.unwrap_or_else(|error| error.to_string());
        Err(format!("{state}: {}", said.trim()))
    }

    fn delete(&self, object: &Object, of: &Identity) -> Result<()> {
        if object.is_kept() {
            return Ok(());
        }
        let namespace = format!(
            "--namespace={}",
            object.namespace().unwrap_or(&of.namespace)
        );
        self.capture(&["delete", &object.title(), &namespace, "--ignore-not-found"])?;
        Ok(())
    }

    /// The object as it is on the cluster.
    fn get(&self, object: &Object, namespace: &str) -> Result<Option<Value>> {
        let namespace = format!("--namespace={}", object.namespace().unwrap_or(namespace));
        let title = object.title();
        let arguments = [
            "get",
            &title,
            &namespace,
            "--ignore-not-found",
            "--output=json",
        ];
        let text = match self.capture(&arguments) {
            Ok(text) => text,
            // Of a kind that the cluster does not know there is no object.
            Err(Error::Kubectl(error))
                if error.to_string().contains("doesn't have a resource type") =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(serde_json::from_str(&text).ok())
    }

    fn ensure_namespace(&self, name: &str) -> Result<()> {
        let namespace =
            Object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        if self.get(&namespace, name)?.is_none() {
            self.capture(&["create", "namespace", name])?;
        }
        Ok(())
    }

    fn feed(&self, of: &Identity, arguments: &[&str], object: &Object) -> Result<()> {
        let namespace = format!("--namespace={}", of.namespace);
        let mut command = self.command();
        command.args(arguments);
        // Where an object says it itself, kubectl would compare.
        if object.namespace().is_none() {
            command.arg(namespace);
        }
        feed(&mut command, &object.0.to_string())?;
        Ok(())
    }

    fn capture(&self, arguments: &[&str]) -> Result<String> {
        Ok(capture(self.command().args(arguments))?)
    }

    fn command(&self) -> Command {
        kubectl(&self.program, &self.kubeconfig)
    }
}
