//! Access to filesystems by NFS: where a cluster serves them, and this node's permission to mount them.
//!
//! What is missing on the array is made: a client group, this node's address in it, and the group's permission for the
//! filesystem. Several nodes do so at once, and all come to the same result. Nothing is undone when a node goes: other nodes and
//! other filesystems use the same group.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stowage_host::mount::MountError;

use super::filesystem::{AskedCluster, Managed, WekaFilesystem};
use crate::config::NfsRules;
use crate::error::{Error, NfsError};
use crate::nfs::covers;
use crate::rest::ApiError;
use crate::rest::error::AccessError;
use crate::rest::wire::nfs::NfsPermission;
use crate::secret::SecretError;

/// How long it is not asked again whether this node may mount a filesystem, and where.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How long a new permission may take until every server of the cluster knows it.
const SETTLING: Duration = Duration::from_secs(20);

/// How long other servers are tried before one from which nothing could be mounted.
const AVOIDED: Duration = Duration::from_secs(300);

/// The port of NFS: only to find the way to a server.
const PORT: u16 = 2049;

const ROOT_ORGANIZATION: &str = "Root";

/// What needs the API.
const WHAT: &str = "mounts by NFS";

/// Cluster and uid of a filesystem.
type Key = [String; 2];

/// Where a filesystem can be mounted from.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    /// In the order in which they are to be tried.
    pub(crate) addresses: Vec<IpAddr>,
    /// Until when a refusal may only mean that the permission is new.
    pub(crate) settling_until: Option<Instant>,
}

/// Access of this node.
pub(crate) struct NfsAccess {
    pub(crate) rules: NfsRules,
    node: String,
    known: Mutex<HashMap<Key, (Servers, Instant)>>,
    /// When nothing could be mounted from a server.
    failures: Mutex<HashMap<IpAddr, Instant>>,
}

impl NfsAccess {
    pub(crate) fn new(rules: NfsRules, node: String) -> Self {
        Self {
            rules,
            node,
            known: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Makes sure that this node may mount a filesystem; returns where.
    ///
    /// Called twice: it may already.
    pub(crate) async fn servers(&self, filesystem: &WekaFilesystem) -> Result<Servers, Error> {
        let managed = filesystem.api_for(WHAT)?;
        check_organization(managed.cluster())?;
        let key = key(filesystem);
        let now = Instant::now();
        {
            let mut known = self.known.lock();
            known.retain(|_, (_, learned)| now.saturating_duration_since(*learned) < REMEMBERED);
            if let Some((servers, _)) = known.get(&key) {
                return Ok(servers.clone());
            }
        }
        let mut addresses = self.addresses(managed.cluster()).await?;
        rotate(&mut addresses, &self.node, filesystem.uid());
        self.put_avoided_last(&mut addresses);
        let changed = self.admit(managed, addresses[0]).await?;
        let servers = Servers {
            addresses,
            settling_until: changed.then(|| Instant::now() + SETTLING),
        };
        let mut known = self.known.lock();
        known.insert(key, (servers.clone(), Instant::now()));
        Ok(servers)
    }

    /// Refuses a node that cannot mount anything of a cluster, as far as that shows before there is something to mount.
    pub(crate) async fn check_able(&self, cluster: AskedCluster<'_>) -> Result<(), Error> {
        check_organization(cluster)?;
        let addresses = self.addresses(cluster).await?;
        self.client_address(addresses[0])?;
        Ok(())
    }

    /// The address from which this node mounts from a server.
    fn client_address(&self, server: IpAddr) -> Result<IpAddr, NfsError> {
        let address = own_address(server).or(self.rules.node_ip);
        address.ok_or(NfsError::NoRoute(server))
    }

    /// The node's address, if the driver has a network of its own and may mount by NFS: mounts go with the network that they
    /// were made in.
    pub(crate) fn other_network(&self) -> Option<IpAddr> {
        let is_elsewhere = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_err();
        let address = self.rules.node_ip.filter(is_elsewhere);
        address.filter(|_| self.rules.is_possible())
    }

    /// A server does not let this node in.
    pub(crate) fn denied(
        &self,
        server: IpAddr,
        filesystem: &WekaFilesystem,
        source: MountError,
    ) -> NfsError {
        NfsError::Denied {
            filesystem: filesystem.name.clone(),
            group: self.rules.client_group.clone(),
            server,
            address: own_address(server).or(self.rules.node_ip),
            source: Box::new(source),
        }
    }

    /// A filesystem could not be mounted from a server: what was remembered may be wrong, and others are tried before it.
    pub(crate) fn avoid(&self, server: IpAddr, filesystem: &WekaFilesystem) {
        self.failures.lock().insert(server, Instant::now());
        self.known.lock().remove(&key(filesystem));
    }

    /// Puts servers last from which nothing could be mounted lately.
    fn put_avoided_last(&self, addresses: &mut [IpAddr]) {
        let mut failures = self.failures.lock();
        failures.retain(|_, failed| failed.elapsed() < AVOIDED);
        addresses.sort_by_key(|address| failures.contains_key(address));
    }

    /// The addresses at which the cluster serves; at least one.
    async fn addresses(&self, cluster: AskedCluster<'_>) -> Result<Vec<IpAddr>, Error> {
        let of_secret = &cluster.api.client().credentials.nfs_addresses;
        let of_secret = of_secret.as_ref().ok_or(SecretError::NfsTargets);
        let of_secret = of_secret.map_err(AccessError::from)?;
        if !of_secret.is_empty() {
            return Ok(of_secret.clone());
        }
        let wanted = self.rules.interface_group.as_deref();
        let groups = cluster.api.interface_groups().await?;
        let mut groups = groups
            .iter()
            .filter(|group| group.kind == "NFS" && wanted.is_none_or(|name| group.name == name))
            .map(|group| group.ips.iter().filter_map(|ip| ip.parse().ok()).collect());
        let found = groups.find(|addresses: &Vec<IpAddr>| !addresses.is_empty());
        found.ok_or_else(|| {
            let (cluster, group) = (cluster.facts.name.clone(), wanted.map(str::to_owned));
            NfsError::NoInterfaceGroup { cluster, group }.into()
        })
    }

    /// Gives this node what it lacks to mount a filesystem; returns whether that was anything.
    async fn admit(&self, managed: &Managed, server: IpAddr) -> Result<bool, Error> {
        let (api, name) = (&managed.api, &self.rules.client_group);
        let address = self.client_address(server)?;
        let group = api.client_group(name).await?;
        let mut rules = group.rules.iter().filter(|rule| rule.kind == "IP");
        let is_member = rules.any(|rule| covers(&rule.rule, address));
        if !is_member {
            api.add_client_rule(&group, &rule(address)).await?;
        }
        let filesystem = &managed.filesystem.name;
        let may_already = self.check_permission(managed).await?;
        if !may_already {
            let made = api.create_nfs_permission(filesystem, name).await;
            made.map_err(|error| self.refused(error, filesystem))?;
            // Another node may have made one, or a person another one.
            if !self.check_permission(managed).await? {
                return Err(self.insufficient(filesystem).into());
            }
        }
        if !is_member || !may_already {
            tracing::info!(filesystem, group = name, %address, "This node may mount the filesystem by NFS now.");
        }
        Ok(!is_member || !may_already)
    }

    /// Whether the client group may read and write the filesystem; an error if it may do something else.
    async fn check_permission(&self, managed: &Managed) -> Result<bool, Error> {
        let filesystem = &managed.filesystem.name;
        let permissions = managed.api.nfs_permissions().await?;
        let mut of_group = permissions.iter().filter(|permission| {
            permission.filesystem == *filesystem
                && permission.group == self.rules.client_group
                && permission.path == "/"
        });
        match of_group.next() {
            None => Ok(false),
            Some(permission) if self.is_sufficient(permission) => Ok(true),
            Some(_) => Err(self.insufficient(filesystem).into()),
        }
    }

    fn is_sufficient(&self, permission: &NfsPermission) -> bool {
        let version = self.rules.version.word();
        let versions = &permission.supported_versions;
        permission.permission_type == "RW"
            && permission.squash_mode == "none"
            && (versions.is_empty() || versions.iter().any(|it| it == version))
    }

    fn insufficient(&self, filesystem: &str) -> NfsError {
        NfsError::Permission {
            filesystem: filesystem.to_owned(),
            group: self.rules.client_group.clone(),
            version: self.rules.version.word(),
        }
    }

    fn refused(&self, error: ApiError, filesystem: &str) -> Error {
        match error {
            ApiError::Refused { .. } => self.insufficient(filesystem).into(),
            error => error.into(),
        }
    }
}

/// NFS serves one organization only.
fn check_organization(cluster: AskedCluster<'_>) -> Result<(), NfsError> {
    let organization = &cluster.api.client().credentials.organization;
    if organization.eq_ignore_ascii_case(ROOT_ORGANIZATION) {
        return Ok(());
    }
    Err(NfsError::Organization(organization.clone()))
}

fn key(filesystem: &WekaFilesystem) -> Key {
    [filesystem.cluster(), filesystem.uid()].map(str::to_owned)
}

/// This node's address as a rule of its own.
fn rule(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{address}/255.255.255.255"),
        IpAddr::V6(address) => format!("{address}/128"),
    }
}

/// The address from which this node reaches a server. Nothing is sent.
fn own_address(server: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((server, PORT)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}

/// Nodes begin with different addresses, and each always with the same.
fn rotate(addresses: &mut [IpAddr], node: &str, filesystem: &str) {
    let mut hash = DefaultHasher::new();
    (node, filesystem).hash(&mut hash);
    let count = u64::try_from(addresses.len()).unwrap_or(1).max(1);
    let first = usize::try_from(hash.finish() % count).unwrap_or(0);
    addresses.rotate_left(first);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_spread_over_the_addresses_and_each_keeps_to_its_own() {
        let all: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
            .map(|ip| ip.parse().unwrap())
            .into();
        let order = |node: &str| {
            let mut addresses = all.clone();
            rotate(&mut addresses, node, "uid");
            addresses
        };
        assert_eq!(order("node-1"), order("node-1"));
        let firsts: std::collections::HashSet<_> = (0..30)
            .map(|number| order(&format!("node-{number}"))[0])
            .collect();
        assert_eq!(firsts.len(), 3, "all of them are used");
    }

    #[test]
    fn a_server_that_failed_is_tried_last() {
        let access = NfsAccess::new(NfsRules::never(), "node".to_owned());
        let [first, second, third] =
            ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| ip.parse::<IpAddr>().unwrap());
        access.failures.lock().insert(first, Instant::now());
        let mut addresses = [first, second, third];
        access.put_avoided_last(&mut addresses);
        assert_eq!(addresses, [second, third, first]);
    }

    #[test]
    fn a_network_of_its_own_matters_only_to_mounts_by_nfs() {
        let access = |address: &str, as_failback| {
            let rules = NfsRules {
                as_failback,
                node_ip: Some(address.parse().unwrap()),
                ..NfsRules::never()
            };
            NfsAccess::new(rules, "node".to_owned()).other_network()
        };
        // An address for documentation, which nobody has.
        assert!(access("192.0.2.1", true).is_some());
        assert_eq!(access("192.0.2.1", false), None);
        assert_eq!(access("127.0.0.1", true), None, "it is this machine's");
    }

    #[test]
    fn a_node_has_a_rule_of_its_own() {
        assert_eq!(
            rule("10.0.0.1".parse().unwrap()),
            "10.0.0.1/255.255.255.255"
        );
        assert_eq!(rule("fd00::1".parse().unwrap()), "fd00::1/128");
        let here = own_address(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(here.is_loopback(), "{here}");
    }
}
