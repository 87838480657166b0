//! Custom resource definitions: created where they are missing, brought up to date, never set back.

use std::cmp::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use stowage_api::{CrdGroup, VERSION_ANNOTATION};

use super::{FIELD_MANAGER, say, version};
use crate::args::CrdsGroup;
use crate::cluster::{Cluster, trouble};

/// What Helm leaves in place when a release goes, should somebody hand a definition over to one.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// The version of a definition from before definitions had one.
const EARLIEST: &str = "0.0.0";

/// A server takes a new definition into service within about a second.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// What is done with a definition.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It is not there, or of this release or an older one, or of an earlier product whose place this one takes.
    Write,
    /// It is newer than we are.
    Newer(String),
    /// Somebody else's, and it serves what we need.
    Foreign,
    /// Somebody else's, without a version that we need.
    Unfit(String),
}

/// Brings the definitions of these groups up to date. Called twice: nothing changes the second time.
pub async fn bring_up_to_date(cluster: &Cluster, groups: &[CrdsGroup]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let asked = |group: &CrdGroup| groups.contains(&CrdsGroup::from(*group));
    let mut decided = Vec::new();
    for group in CrdGroup::ALL.into_iter().filter(asked) {
        for mut crd in group.crds() {
            let annotations = crd.metadata.annotations.get_or_insert_default();
            annotations.insert(KEEP.0.to_owned(), KEEP.1.to_owned());
            let name = crd.metadata.name.clone().unwrap_or_default();
            let live = api.get_opt(&name).await.map_err(|error| {
                trouble::request(cluster, &format!("get definition `{name}`"), &error)
            })?;
            decided.push((decide(group, &crd, live.as_ref()), name, live, crd));
        }
    }
    // All of them are looked at before one is changed.
    for (decision, name, ..) in &decided {
        if let Decision::Unfit(reason) = decision {
            bail!(
                "definition `{name}` was installed by somebody else and {reason}: nothing was changed"
            );
        }
    }
    for (decision, name, live, crd) in decided {
        let outcome = match decision {
            Decision::Write if write(&api, &name, live, &crd).await? => "written".to_owned(),
            Decision::Write => "unchanged".to_owned(),
            Decision::Newer(version) => {
                format!("left as it is, because it is of the newer release {version}")
            }
            Decision::Foreign => format!(
                "left as it is, because somebody else installed it; if it came with an earlier release of Stowage, hand it over by \
                 `kubectl annotate crd {name} {VERSION_ANNOTATION}={EARLIEST}` and repeat this"
            ),
            Decision::Unfit(_) => continue,
        };
        say(&format!("{name}: {outcome}"))?;
    }
    Ok(())
}

fn decide(
    group: CrdGroup,
    ours: &CustomResourceDefinition,
    live: Option<&CustomResourceDefinition>,
) -> Decision {
    let Some(live) = live else {
        return Decision::Write;
    };
    let annotation = |crd: &CustomResourceDefinition, name: &str| {
        let annotations = crd.metadata.annotations.as_ref();
        annotations.and_then(|it| it.get(name)).cloned()
    };
    let our_version = annotation(ours, VERSION_ANNOTATION).unwrap_or_default();
    let Some(live_version) = annotation(live, VERSION_ANNOTATION) else {
        // Whoever deploys these groups is replaced by this product; others may use the rest.
        return match group {
            CrdGroup::DriverDeployments | CrdGroup::Vpsa => Decision::Write,
            CrdGroup::Snapshots | CrdGroup::GroupSnapshots | CrdGroup::Weka => foreign(ours, live),
        };
    };
    match version::compare(&live_version, &our_version) {
        Ordering::Greater => Decision::Newer(live_version),
        // A version does not say everything: builds between two releases have the same one.
        Ordering::Equal | Ordering::Less => Decision::Write,
    }
}

/// Whether a definition of somebody else will do: the version that we store our objects in must be served.
fn foreign(ours: &CustomResourceDefinition, live: &CustomResourceDefinition) -> Decision {
    let serves = |name: &str| {
        live.spec
            .versions
            .iter()
            .any(|it| it.served && it.name == name)
    };
    let needed = ours.spec.versions.iter().find(|it| it.storage);
    match needed {
        Some(needed) if !serves(&needed.name) => {
            Decision::Unfit(format!("does not serve version {}", needed.name))
        }
        _ => Decision::Foreign,
    }
}

/// Writes it, and waits until the server serves it. Returns whether that changed anything.
async fn write(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    before: Option<CustomResourceDefinition>,
    crd: &CustomResourceDefinition,
) -> anyhow::Result<bool> {
    let ours = PatchParams::apply(FIELD_MANAGER).force();
    let written = api
        .patch(name, &ours, &Patch::Apply(crd))
        .await
        .with_context(|| format!("cannot write definition `{name}`"))?;
    let is_changed = before.is_none_or(|it| it.resource_version() != written.resource_version());
    for _ in 0..LOOKS {
        let live = api.get(name).await?;
        let conditions = live.status.and_then(|it| it.conditions).unwrap_or_default();
        let is = |kind: &str| {
            conditions
                .iter()
                .any(|it| it.type_ == kind && it.status == "True")
        };
        if is("Established") {
            return Ok(is_changed);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    bail!(
        "definition `{name}` was written, but the server does not serve it: see `kubectl describe crd {name}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(group: CrdGroup, version: Option<&str>) -> CustomResourceDefinition {
        let mut crd = group.crds().remove(0);
        let annotations = crd.metadata.annotations.get_or_insert_default();
        annotations.insert(KEEP.0.to_owned(), KEEP.1.to_owned());
        match version {
            Some(version) => annotations.insert(VERSION_ANNOTATION.to_owned(), version.to_owned()),
            None => annotations.remove(VERSION_ANNOTATION),
        };
        crd
    }

    #[test]
    fn definitions_go_forward_only_and_others_keep_theirs() {
        use CrdGroup::{DriverDeployments, Snapshots, Vpsa, Weka};
        for (group, live, expected) in [
            (DriverDeployments, None, Decision::Write),
            (DriverDeployments, Some(None), Decision::Write),
            (DriverDeployments, Some(Some("0.0.9")), Decision::Write),
            (DriverDeployments, Some(Some("1.0.0")), Decision::Write),
            (
                DriverDeployments,
                Some(Some("1.2.0")),
                Decision::Newer("1.2.0".to_owned()),
            ),
            (Vpsa, Some(None), Decision::Write),
            (Weka, Some(None), Decision::Foreign),
            (Snapshots, Some(None), Decision::Foreign),
            (Snapshots, Some(Some(EARLIEST)), Decision::Write),
            (Snapshots, Some(Some("1.0.0")), Decision::Write),
        ] {
            let ours = of(group, Some("1.0.0"));
            let live = live.map(|version| of(group, version));
            assert_eq!(decide(group, &ours, live.as_ref()), expected, "{group:?}");
        }
        let mut old = of(Snapshots, None);
        old.spec.versions[0].name = "v1beta1".to_owned();
        let decision = decide(Snapshots, &of(Snapshots, Some("1.0.0")), Some(&old));
        assert_eq!(
            decision,
            Decision::Unfit("does not serve version v1".to_owned())
        );
    }
}
