//! What is mounted through a container.
//!
//! A volume that is attached to its node may be mounted there: the kubelet lets an attachment go only after it has unmounted the
//! volume. Attachments are watched. What is mounted without one, only the node knows: the CSI node pod is asked before the client
//! stops.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use stowage_api::mounts::VolumeMount;
use stowage_api::weka::CSI_DRIVER_LABEL;

use super::decide::drivers_of;
use super::fetch::SeenContainer;
use crate::mounts::tells_at;
use crate::weka::context::Context;
use crate::weka::names::Names;
use crate::weka::problem::Problem;

/// How soon is looked again where no watch tells of a change. It costs a list of all attachments and a question to the node.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    /// How many volumes are attached to its node, of each driver that has any.
    pub(super) attached: BTreeMap<String, usize>,
    /// Whether the API server was asked. Otherwise it is what the watch has seen.
    pub(super) is_asked: bool,
    /// What is mounted on the node without an attachment.
    pub(super) on_node: OnNode,
}

/// What the CSI node pod tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum OnNode {
    /// It was not asked.
    #[default]
    NotAsked,
    /// Nothing. Why.
    Unknown(String),
    /// Where volumes are mounted, below the kubelet's directory.
    Known(Vec<String>),
}

impl Mounts {
    /// Of these drivers, by how many volumes of each are attached.
    pub(super) fn of(drivers: &[String], attached: impl Fn(&str) -> usize) -> Self {
        let counts = drivers.iter().map(|it| (it.clone(), attached(it)));
        Self {
            attached: counts.filter(|(_, count)| *count > 0).collect(),
            ..Self::default()
        }
    }

    fn paths(&self) -> &[String] {
        match &self.on_node {
            OnNode::Known(paths) => paths,
            OnNode::NotAsked | OnNode::Unknown(_) => &[],
        }
    }

    /// Whether anything is mounted.
    pub(super) fn are_there(&self) -> bool {
        self.count() > 0
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.attached.values().sum::<usize>() + self.paths().len()
    }

    /// When to look again, though nobody tells of a change: what had to be asked for is not in the watch.
    pub(super) fn look_again(&self) -> Option<Duration> {
        self.is_asked.then_some(LOOK_AGAIN)
    }

    /// What there is, for people.
    pub(super) fn shown(&self) -> String {
        let count = self.count();
        if let Some(first) = self.paths().first() {
            return format!("{count} mounts are left on the node, the first at `{first}`");
        }
        let drivers: Vec<_> = self.attached.keys().map(|it| format!("`{it}`")).collect();
        let drivers = drivers.join(", ");
        format!("{count} volumes of {drivers} are attached to the node")
    }
}

/// Asks what is mounted: the API server, since what is watched may be behind, and where nothing is attached the node.
pub(super) async fn ask(seen: &SeenContainer, context: &Context) -> Result<Mounts, Problem> {
    let container = seen.container.as_ref();
    let (drivers, node) = (drivers_of(container), container.node().unwrap_or_default());
    let listed = context.attachments.list(&context.client).await?;
    let mut mounts = Mounts {
        is_asked: true,
        ..Mounts::of(&drivers, |driver| listed.of(driver, node))
    };
    if !mounts.are_there() && !drivers.is_empty() {
        mounts.on_node = ask_node(&seen.node_pods, context).await;
    }
    Ok(mounts)
}

async fn ask_node(pods: &[Pod], context: &Context) -> OnNode {
    let mut unknown = pods
        .is_empty()
        .then(|| "there is no CSI node pod".to_owned());
    let mut paths = Vec::new();
    for pod in pods {
        match ask_pod(pod, context).await {
            Ok(mounts) => paths.extend(mounts.into_iter().map(|it| it.path)),
            Err(why) => unknown = Some(why),
        }
    }
    match unknown {
        Some(why) if paths.is_empty() => OnNode::Unknown(why),
        _ => OnNode::Known(paths),
    }
}

/// What the sidecar of a CSI node pod tells; why it does not, if it does not.
async fn ask_pod(pod: &Pod, context: &Context) -> Result<Vec<VolumeMount>, String> {
    let driver = pod.labels().get(CSI_DRIVER_LABEL);
    let driver = driver.map_or("", String::as_str);
    // Of pods that are watched, flags are not kept.
    let namespace = pod.namespace().unwrap_or_default();
    let whole = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let whole = whole.get_opt(&pod.name_any()).await.ok().flatten();
    let key = context.mounts.key_of(&Names::owner_uid(driver)).await;
    match (whole.as_ref().and_then(tells_at), key) {
        (Some(sidecar), Ok(Some(key))) => key.ask(sidecar, driver).await,
        _ => Err("the CSI node pod does not tell".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_is_told_as_it_is_known() {
        let drivers = ["a.weka.io".to_owned(), "b.weka.io".to_owned()];
        let mut mounts = Mounts::of(&drivers, |driver| usize::from(driver == "b.weka.io"));
        assert_eq!(
            mounts.shown(),
            "1 volumes of `b.weka.io` are attached to the node"
        );
        mounts.attached.clear();
        for (on_node, are_there) in [
            (OnNode::NotAsked, false),
            (OnNode::Unknown("no answer".to_owned()), false),
            (OnNode::Known(Vec::new()), false),
            (OnNode::Known(vec!["pods/1/mount".to_owned()]), true),
        ] {
            mounts.on_node = on_node;
            assert_eq!(mounts.are_there(), are_there, "{mounts:?}");
        }
        assert_eq!(
            mounts.shown(),
            "1 mounts are left on the node, the first at `pods/1/mount`"
        );
    }
}
