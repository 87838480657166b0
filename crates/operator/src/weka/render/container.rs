//! The WekaContainer of a client on a node.

use std::collections::BTreeMap;

use serde_json::json;
use stowage_api::weka::{
    CLIENT_NAME_LABEL, ContainerMode, DesiredState, MODE_LABEL, PortRange, TARGET_CLUSTER_LABEL,
    WekaClient, WekaContainerSpec,
};

use crate::driver::{Kind, Object, Owner, metadata_labels};
use crate::weka::names;

/// Where ports are looked for when none is chosen.
const FIRST_PORT: i32 = 45000;
/// MiB of huge pages for each core.
const HUGEPAGES: i32 = 1500;
/// MiB of them that a client leaves alone.
const HUGEPAGES_OFFSET: i32 = 200;

/// What is decided for each container.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// The name of the container.
    pub name: &'a str,
    /// The node.
    pub node: &'a str,
    /// The image: another one than the client's while an upgrade has not reached it.
    pub image: &'a str,
    /// The CSI driver; empty: none.
    pub driver: &'a str,
    /// What is to become of it.
    pub state: DesiredState,
    /// Where it joins its cluster, if the client does not say.
    pub join: &'a [String],
}

/// The WekaContainer of a client on a node.
pub fn container(client: &WekaClient, placement: &Placement<'_>) -> Object {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &client.metadata;
    let owner = Owner {
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
    };
    let target = client.spec.target_cluster.as_ref();
    let mut labels: BTreeMap<_, _> = metadata.labels.clone().unwrap_or_default();
    for (key, value) in [
        ("app", "weka"),
        (MODE_LABEL, "client"),
        (CLIENT_NAME_LABEL, &owner.name),
        (
            TARGET_CLUSTER_LABEL,
            target.map_or("", |it| it.name.as_str()),
        ),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    labels.extend(metadata_labels(&owner));
    let spec = json!(spec(client, placement));
    Object {
        kind: Kind::WekaContainer,
        namespace: Some(owner.namespace),
        name: placement.name.to_owned(),
        labels,
        annotations: BTreeMap::new(),
        body: [("spec".to_owned(), spec)].into_iter().collect(),
    }
}

fn spec(client: &WekaClient, placement: &Placement<'_>) -> WekaContainerSpec {
    let spec = &client.spec;
    let cores = spec.cores();
    let hugepages = match spec.hugepages.unwrap_or_default() {
        0 => HUGEPAGES * cores,
        chosen => chosen,
    };
    WekaContainerSpec {
        node_affinity: Some(placement.node.to_owned()),
        node_selector: spec.node_selector.clone(),
        port: spec.port,
        agent_port: spec.agent_port,
        port_range: port_range(client),
        image: placement.image.to_owned(),
        image_pull_secret: spec.image_pull_secret.clone(),
        name: names::weka_container(client),
        mode: ContainerMode::Client,
        num_cores: cores,
        core_ids: spec.core_ids.clone(),
        cpu_policy: spec.cpu_policy.clone(),
        network: spec.network.clone(),
        hugepages: Some(hugepages),
        hugepages_offset: Some(spec.hugepages_offset.unwrap_or(HUGEPAGES_OFFSET)),
        drivers_dist_service: spec.drivers_dist_service.clone(),
        // The original puts the name of the secret where the key belongs.
        weka_secret_ref: secret(client).map(|name| json!({"secretKeyRef": {"key": name}})),
        join_ip_ports: join(client, placement),
        traces_configuration: spec.traces_configuration.clone(),
        tolerations: Some(spec.all_tolerations()).filter(|list| !list.is_empty()),
        additional_memory: spec.additional_memory,
        service_account_name: spec.service_account_name.clone(),
        resources: spec.resources.clone(),
        upgrade_policy_type: Some(spec.upgrade_type()),
        allow_hot_upgrade: spec.allow_hot_upgrade,
        state: Some(placement.state.clone()),
        auto_remove_timeout: Some(spec.auto_remove_timeout.clone().unwrap_or("24h".to_owned())),
        csi_driver_name: placement.driver.to_owned(),
        overrides: spec.overrides.clone(),
        ..WekaContainerSpec::default()
    }
}

fn join(client: &WekaClient, placement: &Placement<'_>) -> Option<Vec<String>> {
    let own = client.spec.join_ip_ports.clone();
    let own = own.filter(|list| !list.is_empty());
    own.or_else(|| (!placement.join.is_empty()).then(|| placement.join.to_vec()))
}

fn port_range(client: &WekaClient) -> Option<PortRange> {
    let spec = &client.spec;
    let is_open = spec.port.unwrap_or_default() == 0 || spec.agent_port.unwrap_or_default() == 0;
    let default = || PortRange {
        base_port: FIRST_PORT,
        ..PortRange::default()
    };
    spec.port_range.clone().or_else(|| is_open.then(default))
}

/// The secret with which the client joins.
fn secret(client: &WekaClient) -> Option<String> {
    let target = client.spec.target_cluster.as_ref();
    let default = target.map(|it| format!("weka-client-{}", it.name));
    client.spec.weka_secret_ref.clone().or(default)
}
