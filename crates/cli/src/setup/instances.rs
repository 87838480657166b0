//! The CSIDriverDeployments of a release, from ConfigMaps of its namespace.

use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt};
use serde_json::Value;
use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_kubernetes::answer::Answer;

use super::{
    FIELD_MANAGER, RELEASE_LABEL, RELEASE_NAMESPACE_LABEL, resource, say, selector, title,
};
use crate::args::NamedIn;
use crate::cluster::{Cluster, trouble};

/// ConfigMaps with instances of a release.
const INSTANCES_LABEL: &str = "stowage.dev/instances-of";

/// A definition that was just written is served a moment later.
const ATTEMPTS: u32 = 50;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);

/// Applies what the release has, and deletes what it had. Called twice: nothing changes the second time.
pub async fn apply(cluster: &Cluster, release: &NamedIn) -> anyhow::Result<()> {
    let wanted = wanted(cluster, release).await?;
    let present = present(cluster).await?;
    // All of them are looked at before one is changed.
    for instance in &wanted {
        let same = present.iter().find(|it| is_same(it, instance));
        if let Some(live) = same {
            refuse_foreign(live, release)?;
        }
    }
    for instance in &wanted {
        let namespace = instance.namespace().unwrap_or_default();
        let name = instance.name_any();
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client.clone(), &namespace, &resource());
        let ours = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name, &ours, &Patch::Apply(instance))
            .await
            .map_err(|error| {
                let what = format!("apply CSIDriverDeployment {namespace}/{name}");
                trouble::request(cluster, &what, &error)
            })?;
        say(&format!("CSIDriverDeployment {namespace}/{name}: applied"))?;
    }
    for live in present {
        if belongs(&live, release) && !wanted.iter().any(|it| is_same(&live, it)) {
            delete(cluster, &live).await?;
            say(&format!(
                "{}: deleted, because the release no longer has it",
                title(&live)
            ))?;
        }
    }
    Ok(())
}

/// What the ConfigMaps hold, with the labels of the release.
async fn wanted(cluster: &Cluster, release: &NamedIn) -> anyhow::Result<Vec<DynamicObject>> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &release.namespace);
    let labelled = format!("{INSTANCES_LABEL}={}", release.name);
    let maps = api.list(&ListParams::default().labels(&labelled)).await;
    let maps = maps.map_err(|error| trouble::request(cluster, "list ConfigMaps", &error))?;
    let mut wanted = Vec::new();
    for map in maps {
        for (key, text) in map.data.iter().flatten() {
            let place = format!("`{key}` of ConfigMap {}", map.name_any());
            let documents: Vec<Value> = serde_saphyr::from_multiple(text)
                .with_context(|| format!("cannot read {place}"))?;
            for document in documents {
                let mut instance: DynamicObject = serde_json::from_value(document)
                    .with_context(|| format!("{place} is not a Kubernetes object"))?;
                let kind = instance.types.as_ref().map(|it| it.kind.as_str());
                if kind != Some(CSIDriverDeployment::kind(&()).as_ref()) {
                    bail!("{place} is not a CSIDriverDeployment");
                }
                let labels = instance.labels_mut();
                labels.insert(RELEASE_LABEL.to_owned(), release.name.clone());
                labels.insert(
                    RELEASE_NAMESPACE_LABEL.to_owned(),
                    release.namespace.clone(),
                );
                wanted.push(instance);
            }
        }
    }
    Ok(wanted)
}

/// All instances of the cluster.
pub(super) async fn present(cluster: &Cluster) -> anyhow::Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource());
    let mut attempt = 0;
    loop {
        match api.list(&ListParams::default()).await {
            Ok(list) => return Ok(list.items),
            Err(error) if matches!(Answer::of(&error), Answer::NotServed) && attempt < ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(BETWEEN_ATTEMPTS).await;
            }
            Err(error) => {
                return Err(trouble::request(
                    cluster,
                    "list CSIDriverDeployments",
                    &error,
                ));
            }
        }
    }
}

pub(super) fn belongs(instance: &DynamicObject, release: &NamedIn) -> bool {
    let label = |name: &str| instance.labels().get(name).map(String::as_str);
    label(RELEASE_LABEL) == Some(&release.name)
        && label(RELEASE_NAMESPACE_LABEL) == Some(&release.namespace)
}

pub(super) async fn delete(cluster: &Cluster, instance: &DynamicObject) -> anyhow::Result<()> {
    let namespace = instance.namespace().unwrap_or_default();
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), &namespace, &resource());
    match api
        .delete(&instance.name_any(), &DeleteParams::default())
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if matches!(Answer::of(&error), Answer::Gone) => Ok(()),
        Err(error) => {
            let what = format!("delete {}", title(instance));
            Err(trouble::request(cluster, &what, &error))
        }
    }
}

fn is_same(live: &DynamicObject, wanted: &DynamicObject) -> bool {
    live.name_any() == wanted.name_any() && live.namespace() == wanted.namespace()
}

fn refuse_foreign(live: &DynamicObject, release: &NamedIn) -> anyhow::Result<()> {
    let title = title(live);
    if live.metadata.deletion_timestamp.is_some() {
        bail!("{title} is being deleted: wait until it is gone, and try again");
    }
    if belongs(live, release) {
        return Ok(());
    }
    let (namespace, name) = (live.namespace().unwrap_or_default(), live.name_any());
    bail!(
        "{title} exists and is not of this release: delete it, choose another name, or hand it over by \
         `kubectl --namespace {namespace} label csidriverdeployment {name} {}`",
        selector(release).replace(',', " ")
    )
}
