//! `./x chart`: our charts on a cluster, where there is no Helm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use devcluster::cluster::Cluster;
use devcluster::kubernetes::kubectl_program;
use devcluster::report::Report;
use serde_json::{Value, json};
use stowage_chart::chart::{Chart, read_yaml};
use stowage_chart::release::Kubectl;
use stowage_chart::render::{Identity, no_cluster, render};
use stowage_chart::values;

use crate::test;
use crate::workspace::say;

/// How long a hook may take: as long as Helm's own default.
const PATIENCE: Duration = Duration::from_secs(300);

/// What can be done with a chart; names and flags are Helm's.
#[derive(Subcommand)]
pub enum Verb {
    /// Print what a chart comes to.
    Template(What),
    /// Install a chart, or upgrade the release.
    Upgrade(What),
    /// Go back to an earlier revision.
    Rollback {
        /// Name of the release.
        release: String,
        /// The revision. Default: the one before the current one.
        revision: Option<u32>,
        /// Its namespace.
        #[arg(long, default_value = "csi-operator")]
        namespace: String,
    },
    /// Remove a release.
    Uninstall {
        /// Name of the release.
        release: String,
        /// Its namespace.
        #[arg(long, default_value = "csi-operator")]
        namespace: String,
    },
}

/// A release of a chart.
#[derive(clap::Args)]
pub struct What {
    /// Name of the release.
    release: String,
    /// Directory of the chart, such as `charts/stowage`.
    chart: PathBuf,
    /// Namespace of the release; made if it does not exist.
    #[arg(long, default_value = "csi-operator")]
    namespace: String,
    /// File with values.
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Single values: `a.b=c`, several separated by commas.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl What {
    fn identity(&self) -> Identity {
        Identity::new(&self.namespace, &self.release)
    }

    fn own_values(&self) -> anyhow::Result<Value> {
        let mut own = json!({});
        for file in &self.values {
            values::overlay(&mut own, &read_yaml(file)?);
        }
        for words in &self.set {
            values::set(&mut own, words)?;
        }
        Ok(own)
    }

    fn chart(&self) -> anyhow::Result<Chart> {
        Chart::load(&self.chart)
            .with_context(|| format!("`{}` is not a chart", self.chart.display()))
    }
}

pub fn run(verb: &Verb, cluster: &str, report: &Report) -> anyhow::Result<()> {
    match verb {
        Verb::Template(what) => template(what),
        Verb::Upgrade(what) => {
            let step = report.step(format!("Installing or upgrading {}", what.release));
            let done = kubectl(cluster)?.upgrade_or_install(
                &what.chart()?,
                &what.own_values()?,
                &what.identity(),
            )?;
            step.done(&format!("revision {}", done.identity.revision));
            say(done.notes.trim_end());
            Ok(())
        }
        Verb::Rollback {
            release,
            revision,
            namespace,
        } => {
            let step = report.step(format!("Rolling {release} back"));
            let identity = Identity::new(namespace, release);
            let done = kubectl(cluster)?.roll_back_to(&identity, *revision)?;
            step.done(&format!("revision {}", done.identity.revision));
            Ok(())
        }
        Verb::Uninstall { release, namespace } => {
            let step = report.step(format!("Uninstalling {release}"));
            kubectl(cluster)?.uninstall_release(&Identity::new(namespace, release))?;
            step.done("");
            Ok(())
        }
    }
}

fn template(what: &What) -> anyhow::Result<()> {
    let rendered = render(
        &what.chart()?,
        &what.own_values()?,
        &what.identity(),
        no_cluster(),
    )?;
    for (source, text) in &rendered.texts {
        say(&format!("---\n# Source: {source}\n{}", text.trim_end()));
    }
    Ok(())
}

fn kubectl(cluster: &str) -> anyhow::Result<Kubectl> {
    let kubeconfig = match test::own_cluster()? {
        Some(own) => own,
        None => Cluster::named(cluster)?.kubeconfig(),
    };
    must_exist(&kubeconfig)?;
    Ok(Kubectl {
        program: kubectl_program(),
        kubeconfig,
        patience: PATIENCE,
    })
}

fn must_exist(kubeconfig: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        kubeconfig.exists(),
        "there is no cluster: make one with `./x up`, or set STOWAGE_KUBECONFIG"
    );
    Ok(())
}
