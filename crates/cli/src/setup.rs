//! `stowage setup`: definitions and drivers of a release, in an order that Helm does not have.
//!
//! Every step may be repeated, and a step that died in the middle is finished by the next attempt.

mod definitions;
mod instances;
mod keys;
mod remove;
mod version;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use stowage_api::driver_deployment::CSIDriverDeployment;

use crate::args::{NamedIn, Setup};
use crate::{cluster, output};

/// Owner of the fields that are written here.
const FIELD_MANAGER: &str = "stowage-setup";

/// The release that an instance belongs to.
const RELEASE_LABEL: &str = "stowage.dev/release";
const RELEASE_NAMESPACE_LABEL: &str = "stowage.dev/release-namespace";

/// Runs one of its commands.
pub async fn run(command: Setup) -> anyhow::Result<()> {
    let access = match &command {
        Setup::Definitions(args) => &args.access,
        Setup::Instances(args) => &args.access,
        Setup::Remove(args) => &args.access,
    };
    let cluster = cluster::connect(access).await?;
    match command {
        Setup::Definitions(args) => definitions::bring_up_to_date(&cluster, &args.groups).await,
        Setup::Instances(args) => {
            if let Some(secret) = &args.key_secret {
                keys::ensure(&cluster, secret).await?;
            }
            instances::apply(&cluster, &args.release).await
        }
        Setup::Remove(args) => remove::run(&cluster, &args).await,
    }
}

/// A line for whoever reads the log of the hook.
fn say(line: &str) -> anyhow::Result<()> {
    output::print(&format!("{line}\n"))
}

/// The labels of instances of a release, as a selector.
fn selector(release: &NamedIn) -> String {
    format!(
        "{RELEASE_LABEL}={},{RELEASE_NAMESPACE_LABEL}={}",
        release.name, release.namespace
    )
}

/// Namespace and name.
fn title(instance: &DynamicObject) -> String {
    let namespace = instance.namespace().unwrap_or_default();
    format!("CSIDriverDeployment {namespace}/{}", instance.name_any())
}

/// Instances as they are stored: one that another version wrote must not be in the way of a release.
fn resource() -> ApiResource {
    ApiResource::erase::<CSIDriverDeployment>(&())
}
