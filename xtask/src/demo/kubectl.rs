//! `kubectl` as a person of the demo types it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use devcluster::process::{capture, feed, wait_until};

use crate::workspace::{root, say};

/// How long any step may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The demo's namespace.
const OWN: [&str; 2] = ["--namespace", "stowage-demo"];

/// `kubectl` on the demo's cluster.
pub struct Kubectl {
    pub program: PathBuf,
    pub kubeconfig: PathBuf,
}

impl Kubectl {
    pub fn command(&self) -> Command {
        let mut command = devcluster::kubernetes::kubectl(&self.program, &self.kubeconfig);
        // Paths on the command line are those of a person in the project's directory.
        command.current_dir(root());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(capture(self.command().args(arguments))?)
    }

    /// Runs it in the demo's namespace.
    pub fn own(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run(&[&OWN[..], arguments].concat())
    }

    /// The same, and shows both.
    pub fn show_own(&self, arguments: &[&str]) -> anyhow::Result<()> {
        self.show(&[&OWN[..], arguments].concat())
    }

    pub fn wait_for_pod(&self, name: &str) -> anyhow::Result<()> {
        self.wait(&format!("pod {name} runs"), |kubectl| {
            let phase = "jsonpath={.status.phase}";
            Ok(kubectl.own(&["get", "pod", name, "-o", phase])? == "Running")
        })
    }

    pub fn apply_text(&self, text: &str) -> anyhow::Result<()> {
        feed(self.command().args(["apply", "-f", "-"]), text)?;
        Ok(())
    }

    pub fn apply_file(&self, file: &str) -> anyhow::Result<String> {
        self.run(&["apply", "-f", file])
    }

    /// Runs it and shows both, what is typed and what comes.
    pub fn show(&self, arguments: &[&str]) -> anyhow::Result<()> {
        show(arguments, &self.run(arguments)?);
        Ok(())
    }

    pub fn wait(
        &self,
        what: &str,
        ready: impl Fn(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let log = Path::new("kubectl get events --all-namespaces");
        wait_until(what, PATIENCE, log, || Ok(ready(self).unwrap_or(false)))?;
        Ok(())
    }
}

pub fn show(arguments: &[&str], said: &str) {
    let typed: Vec<_> = arguments.iter().copied().map(quoted).collect();
    let typed = typed.join(" ");
    say(&format!("$ kubectl {typed}\n{}\n", said.trim_end()));
}

pub fn show_own(arguments: &[&str], said: &str) {
    show(&[&OWN[..], arguments].concat(), said);
}

/// As a shell needs it.
fn quoted(word: &str) -> String {
    if word.contains(['{', ' ']) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}
