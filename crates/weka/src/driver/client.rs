//! The Weka client of this machine: whether it can mount, and through which of its containers.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;

use super::home::Home;
use super::threads::Threads;
use crate::error::Error;
use crate::procfs::{ClientError, Frontends};
use crate::rest::Deadline;
use crate::rest::wire::Container;
use crate::version::Capability;

/// What threads that read the client's report are counted under.
const REPORT: &str = "the Weka client's report";

/// The client as the kernel shows it.
#[derive(Clone)]
pub(crate) struct LocalClient {
    pub(crate) modules: PathBuf,
    pub(crate) interface: PathBuf,
    /// The container that a flag names.
    pub(crate) configured: Option<String>,
    /// This node, as the cluster may know it.
    pub(crate) node: String,
    pub(crate) threads: Threads,
}

impl LocalClient {
    /// Reads the kernel's report. It hangs where the client does, so it is read on a thread that can be left.
    pub(crate) async fn frontends(&self, deadline: Deadline) -> Result<Frontends, Error> {
        let (modules, interface) = (self.modules.clone(), self.interface.clone());
        let read = move || {
            let modules =
                std::fs::read_to_string(&modules).map_err(Error::io("reading", modules))?;
            // Absent where no client ever ran; the list of modules tells.
            let interface = std::fs::read_to_string(&interface).unwrap_or_default();
            Ok(Frontends::parse(&modules, &interface))
        };
        let report = self.threads.run(REPORT, None, deadline, read).await;
        report.map_err(|source| Error::Hung {
            filesystem: REPORT.to_owned(),
            source,
        })?
    }

    /// The container to mount through; none where one need not be named.
    pub(crate) async fn container(
        &self,
        home: &Home,
        deadline: Deadline,
    ) -> Result<Option<String>, Error> {
        let frontends = self.frontends(deadline).await?;
        frontends.check()?;
        let of_secret = home
            .managed
            .as_ref()
            .and_then(|managed| managed.api.client().credentials.local_container.clone());
        let configured = self.configured.clone().or(of_secret);
        let named = home
            .managed
            .as_ref()
            .filter(|managed| managed.facts.has(Capability::ClientOfManyClusters));
        let Some(managed) = named else {
            // An old cluster, or one that cannot be asked: the option may not exist.
            return match configured {
                Some(name) => Ok(Some(frontends.choose(Some(&name), None)?)),
                None if frontends.connected().count() > 1 => {
                    Ok(Some(frontends.choose(None, None)?))
                }
                None => Ok(None),
            };
        };
        match frontends.choose(configured.as_deref(), None) {
            Err(ClientError::Ambiguous(_)) => {
                let known = managed
                    .api
                    .local_containers(|container| self.is_here(container))
                    .await?;
                Ok(Some(frontends.choose(None, Some(&known))?))
            }
            chosen => Ok(Some(chosen?)),
        }
    }

    /// Whether a container of the cluster is on this machine: by name, or by an address that only this machine can use.
    fn is_here(&self, container: &Container) -> bool {
        let by_name = container.hostname == self.node;
        let address = container.ip.parse::<IpAddr>();
        by_name || address.is_ok_and(|address| UdpSocket::bind((address, 0)).is_ok())
    }
}
