//! The Weka client of this machine: whether it can mount, and through which of its containers.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stowage_host::PathError;
use stowage_host::workers::Workers;

use super::filesystem::AskedCluster;
use crate::args::client_files::ClientFiles;
use crate::error::Error;
use crate::procfs::{ClientError, Containers, Frontends};
use crate::rest::wire::Container;
use crate::rest::{ApiError, Deadline};
use crate::version::Capability;

/// What threads wait for that read the client's report.
const REPORT: &str = "the Weka client's report (`/proc/wekafs`)";

/// How long a container is known to be of a cluster without asking it again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The client as the kernel shows it.
#[derive(Clone)]
pub(crate) struct LocalClient {
    pub(crate) files: ClientFiles,
    /// The container that a flag names.
    pub(crate) configured: Option<String>,
    /// This node, as the cluster may know it.
    pub(crate) node: String,
    pub(crate) workers: Workers,
    pub(crate) chosen: ChosenContainers,
}

/// The containers that were chosen lately.
#[derive(Clone, Default)]
pub(crate) struct ChosenContainers(Arc<Mutex<HashMap<Choice, (LocalContainer, Instant)>>>);

/// A container to mount through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalContainer {
    pub(crate) name: String,
    /// The cluster has containers of this name, but knows of none on this machine: it may know the machine by another
    /// name, or the container may belong to another cluster.
    pub(crate) is_unconfirmed: bool,
}

impl From<String> for LocalContainer {
    fn from(name: String) -> Self {
        Self {
            name,
            is_unconfirmed: false,
        }
    }
}

/// What a choice depends on.
#[derive(PartialEq, Eq, Hash)]
struct Choice {
    cluster: String,
    configured: Option<String>,
    frontends: Frontends,
}

impl ChosenContainers {
    fn find(&self, choice: &Choice) -> Option<LocalContainer> {
        let mut chosen = self.0.lock();
        chosen.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        chosen.get(choice).map(|(container, _)| container.clone())
    }

    fn remember(&self, choice: Choice, container: LocalContainer) {
        let mut chosen = self.0.lock();
        chosen.insert(choice, (container, Instant::now()));
    }
}

impl LocalClient {
    /// Reads the kernel's report. It hangs where the client does, so it is read on a thread that can be left.
    pub(crate) async fn frontends(&self, deadline: Deadline) -> Result<Frontends, Error> {
        let ClientFiles { modules, interface } = self.files.clone();
        let read = move || {
            let modules = match std::fs::read_to_string(&modules) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                read => Some(read.map_err(PathError::at("read", modules))?),
            };
            // Absent where no client ever ran; that shows in the list of modules.
            let interface = std::fs::read_to_string(&interface).unwrap_or_default();
            Ok(Frontends::parse(modules.as_deref(), &interface))
        };
        let report = self.workers.run(REPORT, deadline.remaining(), read).await;
        report.map_err(|source| Error::Hung {
            what: REPORT.to_owned(),
            source,
        })?
    }

    /// The container to mount filesystems of a cluster through; none where one need not be named.
    pub(crate) async fn container(
        &self,
        cluster: Option<AskedCluster<'_>>,
        deadline: Deadline,
    ) -> Result<Option<LocalContainer>, Error> {
        let frontends = self.frontends(deadline).await?;
        frontends.check()?;
        if frontends.is_nameless() {
            return Ok(None);
        }
        let of_secret =
            cluster.and_then(|cluster| cluster.api.client().credentials.local_container.clone());
        let configured = self.configured.clone().or(of_secret);
        let named = cluster.filter(|cluster| cluster.facts.has(Capability::ClientOfManyClusters));
        let Some(cluster) = named else {
            // An old cluster, or one that cannot be asked: the option may not exist.
            return match configured {
                Some(name) => Ok(Some(frontends.choose(Some(&name), None)?.into())),
                None if frontends.connected().count() > 1 => {
                    Ok(Some(frontends.choose(None, None)?.into()))
                }
                None => Ok(None),
            };
        };
        let choice = Choice {
            cluster: cluster.facts.guid.clone(),
            configured,
            frontends,
        };
        if let Some(container) = self.chosen.find(&choice) {
            return Ok(Some(container));
        }
        let container = self.choose(&choice, cluster).await?;
        self.chosen.remember(choice, container.clone());
        Ok(Some(container))
    }

    /// Asks the cluster which containers are its own, also where there is only one: it may be of another cluster, which may
    /// have a filesystem of the same name.
    async fn choose(
        &self,
        choice: &Choice,
        cluster: AskedCluster<'_>,
    ) -> Result<LocalContainer, Error> {
        let (frontends, configured) = (&choice.frontends, choice.configured.as_deref());
        let known = match cluster.api.containers().await {
            Ok(all) => self.containers_of(&cluster.facts.name, &all),
            // It need not be asked where there is no choice.
            Err(
                error @ (ApiError::Forbidden { .. }
                | ApiError::Missing { .. }
                | ApiError::Refused { .. }),
            ) => match frontends.choose(configured, None) {
                Err(ClientError::Ambiguous(_)) => return Err(error.into()),
                chosen => return Ok(chosen?.into()),
            },
            Err(error) => return Err(error.into()),
        };
        // An empty list says nothing about this node.
        let known = Some(&known).filter(|known| !known.anywhere.is_empty());
        let name = frontends.choose(configured, known)?;
        Ok(LocalContainer {
            is_unconfirmed: known.is_some_and(|known| !known.here.contains(&name)),
            name,
        })
    }

    fn containers_of(&self, cluster: &str, all: &[Container]) -> Containers {
        let names = |wanted: &dyn Fn(&Container) -> bool| {
            let found = all.iter().filter(|container| wanted(container));
            let names = found.map(|container| container.name.clone());
            names.filter(|name| !name.is_empty()).collect()
        };
        Containers {
            cluster: cluster.to_owned(),
            here: names(&|container| {
                container.mode != "backend" && container.status == "UP" && self.is_here(container)
            }),
            anywhere: names(&|_| true),
        }
    }

    /// Whether a container of the cluster is on this machine: by name, or by an address that only this machine can use.
    fn is_here(&self, container: &Container) -> bool {
        let address = container.ip.parse::<IpAddr>();
        is_same_host(&container.hostname, &self.node)
            || address.is_ok_and(|address| UdpSocket::bind((address, 0)).is_ok())
    }
}

/// Whether two names are of one machine; one of them may lack the domain.
fn is_same_host(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let same =
        one == other || (one.contains('.') != other.contains('.') && short(&one) == short(&other));
    same && !one.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_with_and_without_its_domain() {
        for (one, other, same) in [
            ("node-a", "node-a", true),
            ("Node-A", "node-a.example.com", true),
            ("node-a.example.com", "node-a.example.org", false),
            ("node-a", "node-b.example.com", false),
            ("", "", false),
        ] {
            assert_eq!(is_same_host(one, other), same, "{one} {other}");
            assert_eq!(is_same_host(other, one), same, "{other} {one}");
        }
    }
}
