//! Names: of drivers, and of what belongs to them. Pure.
//!
//! Two schemes. `seed` is that of the first documentation (`csi.<x>.weka.io`), `released` that of the releases of Weka's
//! operator (`<group>.weka.io`), for clusters that have volumes of those. A name that breaks a limit of Kubernetes is
//! refused and never cut: cut names meet.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use stowage_api::weka::{WekaClient, WekaCluster};

use crate::config::WekaClass;
use crate::driver_deployment::validate::is_subdomain;

/// The driver of those who choose no name, and of a separately installed plugin.
pub const DEFAULT_DRIVER: &str = "csi.weka.io";
/// How every name ends that is not taken as it is.
const DOMAIN: &str = ".weka.io";
/// Longest name of a driver, of a workload and of a container.
const LONGEST: usize = 63;

/// How drivers are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// `csi.<x>.weka.io`
    #[default]
    Seed,
    /// `<group>.weka.io`
    Released,
}

/// What a driver is called after. Clients share a driver only if this is the same for them: two that merely come to the
/// same name would mix up two clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The `csiGroup` of clients without a target cluster; empty is the default.
    ClientGroup(String),
    /// The `csiGroup` of a cluster, in the scheme `released`.
    ClusterGroup(String),
    /// The `csiDriverName` of a cluster.
    DriverName(String),
    /// A cluster that says nothing about it: namespace and name.
    Cluster(String, String),
}

impl Origin {
    /// What a client's driver is called after.
    pub fn of(client: &WekaClient, cluster: Option<&WekaCluster>, scheme: Scheme) -> Self {
        let Some(cluster) = cluster else {
            let config = client.spec.csi_config.as_ref();
            let group = config.map(|it| it.csi_group.clone());
            return Self::ClientGroup(group.unwrap_or_default());
        };
        let config = cluster.spec.csi_config.clone().unwrap_or_default();
        if !config.csi_driver_name.is_empty() {
            return Self::DriverName(config.csi_driver_name);
        }
        if scheme == Scheme::Released && !config.csi_group.is_empty() {
            return Self::ClusterGroup(config.csi_group);
        }
        let metadata = &cluster.metadata;
        Self::Cluster(
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        )
    }

    /// The name of the driver.
    pub fn driver(&self, scheme: Scheme) -> String {
        let group = match self {
            Self::DriverName(name) => return name.clone(),
            Self::ClientGroup(group) | Self::ClusterGroup(group) => group.clone(),
            Self::Cluster(namespace, name) => match scheme {
                Scheme::Seed => format!("{name}-{namespace}"),
                Scheme::Released => format!("{name}.{namespace}"),
            },
        };
        match scheme {
            Scheme::Seed => match kebab(&group).as_str() {
                "" => DEFAULT_DRIVER.to_owned(),
                part => format!("csi.{part}{DOMAIN}"),
            },
            Scheme::Released if group.is_empty() => DEFAULT_DRIVER.to_owned(),
            Scheme::Released => format!("{group}{DOMAIN}"),
        }
    }

    /// Where it is written, for people.
    pub fn shown(&self) -> String {
        match self {
            Self::ClientGroup(group) if group.is_empty() => "no `csiGroup`".to_owned(),
            Self::ClientGroup(group) => format!("`csiGroup: {group}`"),
            Self::ClusterGroup(group) => format!("a WekaCluster's `csiGroup: {group}`"),
            Self::DriverName(name) => format!("a WekaCluster's `csiDriverName: {name}`"),
            Self::Cluster(namespace, name) => format!("WekaCluster {namespace}/{name}"),
        }
    }
}

/// `groupName` becomes `group-name`, `CSIGroup` becomes `csi-group`; what a name cannot have becomes `-`.
fn kebab(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut parts = String::new();
    for (index, c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|it| chars.get(it));
        let after = chars.get(index + 1);
        let follows_small = before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let ends_acronym = before.is_some_and(char::is_ascii_uppercase)
            && after.is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && (follows_small || ends_acronym) {
            parts.push('-');
        }
        let fits = c.is_ascii_alphanumeric();
        parts.push(if fits { c.to_ascii_lowercase() } else { '-' });
    }
    let parts = parts.split('-').filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// Names of what belongs to a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The driver.
    pub driver: String,
    /// The Deployment of its controller, and the account of it.
    pub controller: String,
    /// The account of its node pods.
    pub node_account: String,
    scheme: Scheme,
}

/// Why a driver cannot have its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Too long, or with characters that no object may have in its name.
    #[error(
        "`{0}` is not a valid name of a CSI driver: use at most 63 lower-case letters, digits, '-' and '.'; set \
         `spec.csiConfig.csiDriverName` of the WekaCluster or `spec.csiConfig.csiGroup` of the WekaClient"
    )]
    Driver(String),
    /// The name of the controller is too long.
    #[error(
        "the controller of driver `{driver}` would be called `{controller}`, and names of workloads have at most 63 \
         characters: choose a shorter name for the driver"
    )]
    Controller {
        /// The driver.
        driver: String,
        /// Its controller.
        controller: String,
    },
}

impl Names {
    /// The names for a driver, if all of them are within limits.
    pub fn of(driver: &str, scheme: Scheme) -> Result<Self, NameError> {
        if driver.len() > LONGEST || !is_subdomain(driver) {
            return Err(NameError::Driver(driver.to_owned()));
        }
        let stem = match scheme {
            Scheme::Seed => format!("{}-csi", base(driver)),
            Scheme::Released => format!("{}-weka-csi", dashed(group(driver))),
        };
        let controller = format!("{stem}-controller");
        if controller.len() > LONGEST {
            let driver = driver.to_owned();
            return Err(NameError::Controller { driver, controller });
        }
        Ok(Self {
            driver: driver.to_owned(),
            controller,
            node_account: format!("{stem}-node"),
            scheme,
        })
    }

    /// The storage class of a filesystem with these mount options; a suffix takes the place of the options.
    pub fn storage_class(&self, filesystem: &str, options: &[String], suffix: &str) -> String {
        let mut name = match self.scheme {
            Scheme::Seed => format!("storageclass-{}-{filesystem}", dashed(&self.driver)),
            Scheme::Released => format!("weka-{}-{filesystem}", dashed(group(&self.driver))),
        };
        let parts: Vec<&str> = match suffix {
            "" => options.iter().map(String::as_str).collect(),
            suffix => vec![suffix],
        };
        for part in parts {
            name.push('-');
            name.push_str(part);
        }
        // Options such as `readahead_kb=32` have what names cannot have.
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        name.replace(|c| !fits(c), "-")
    }

    /// What two drivers cannot both have: every object that is not called after the whole name of its driver.
    pub fn objects(&self, classes: &[WekaClass]) -> Vec<String> {
        let classes = classes.iter().map(|class| {
            let name = self.storage_class(&class.filesystem, &class.mount_options, &class.suffix);
            format!("StorageClass `{name}`")
        });
        let accounts = [&self.controller, &self.node_account];
        let accounts = accounts.map(|name| format!("ServiceAccount `{name}`"));
        let controller = format!("Deployment `{}`", self.controller);
        [controller]
            .into_iter()
            .chain(accounts)
            .chain(classes)
            .collect()
    }

    /// Tells what was made for this driver from what was made for another: it fits a label.
    pub fn owner_uid(driver: &str) -> String {
        let hash = Sha256::digest(driver.as_bytes());
        let digits: String = hash[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("weka-{digits}")
    }
}

/// The part that tells drivers apart.
fn base(driver: &str) -> &str {
    let mut parts = driver.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(second), Some(_)) => second,
        _ => "csi",
    }
}

fn group(driver: &str) -> &str {
    driver.strip_suffix(DOMAIN).unwrap_or(driver)
}

fn dashed(name: &str) -> String {
    name.replace('.', "-")
}

/// The secret with which the driver of a client reaches its cluster: namespace and name.
pub fn csi_secret(client: &WekaClient, scheme: Scheme) -> (String, String) {
    if let Some(target) = &client.spec.target_cluster {
        return (
            target.namespace.clone(),
            format!("weka-csi-{}", target.name),
        );
    }
    let config = client.spec.csi_config.as_ref();
    let group = config.map_or("", |it| it.csi_group.as_str());
    let group = match scheme {
        Scheme::Seed => kebab(group),
        Scheme::Released => group.to_owned(),
    };
    let group = if group.is_empty() { "csi" } else { &group };
    let namespace = client.metadata.namespace.clone();
    (namespace.unwrap_or_default(), format!("weka-csi-{group}"))
}

/// The WekaContainer of a client on a node. The uid of the node keeps names that must be cut apart.
pub fn container(client: &str, node: &str, node_uid: &str) -> String {
    let short = format!("{client}-{node}");
    if short.len() <= LONGEST {
        return short;
    }
    let kept = (LONGEST - 1).saturating_sub(node_uid.len());
    let client = client.get(..kept).unwrap_or(client);
    format!("{}-{node_uid}", client.trim_end_matches(['-', '.']))
}

/// The CSI node pod beside a container.
pub fn node_pod(container: &str) -> String {
    format!("{container}-csi-node")
}

/// What containers of a client are called in the Weka cluster.
pub fn weka_container(client: &WekaClient) -> String {
    let chosen = client.spec.overrides.as_ref();
    let chosen = chosen.and_then(|it| it["wekaContainerName"].as_str());
    if let Some(name) = chosen.filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let uid = client.metadata.uid.as_deref().unwrap_or_default();
    format!("{}client", uid.rsplit('-').next().unwrap_or_default())
}

/// The label of a node on which a driver's client serves.
pub fn accessible_label(driver: &str) -> String {
    format!("topology.{driver}/accessible")
}
