//! What the cluster is told about this node: its VSCNode, and its sessions.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stowage_api::causes::chain;
use stowage_api::vpsa::{
    BlockAddress, CLEAN, DETACHED, FENCED, NasAddress, RELEASED, VscNode, VscNodeSpec,
};
use stowage_host::exec::ExecError;
use stowage_host::{blocking, kubelet};
use stowage_kubernetes::object_error::ObjectError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::NodeServices;
use super::detached::is_of;
use super::iscsi::IscsiError;
use super::network::{AddressError, Network, choose, own_addresses};
use super::words::Words;
use crate::vsc::write::Writer;

/// How soon it is tried again, and how soon it is looked again while the node is fenced; how often it is looked otherwise
/// whether the node is still the same.
const RETRY: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(60);

/// In the names of all arrays' targets.
const ARRAYS: &str = ".zadara";

/// What the cluster is told about this node.
pub struct Registration {
    /// The API server.
    pub client: Client,
    /// This node's name.
    pub node: String,
    /// Where it is reached.
    pub address: Address,
    /// The file with the name of its initiator.
    pub initiator_name: PathBuf,
    /// What is said about sessions.
    pub words: Words,
}

/// How the address of a node is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// It was given.
    Given(IpAddr),
    /// The node's own in this network.
    Within {
        /// The network.
        network: Network,
        /// Where the kernel tells which addresses the node has.
        told: PathBuf,
    },
}

impl Address {
    /// The address; `known` is what it was so far.
    async fn find(&self, known: Option<IpAddr>) -> Result<IpAddr, AddressError> {
        match self.clone() {
            Self::Given(address) => Ok(address),
            Self::Within { network, told } => {
                let own = blocking(move || own_addresses(&told)).await?;
                choose(network, own, known)
            }
        }
    }
}

impl NodeServices {
    /// Keeps the VSCNode current until `stop`, and answers for this node once it was fenced.
    pub async fn keep_registered(&self, stop: &CancellationToken) {
        let mut reported = String::new();
        let keep = async {
            loop {
                let all_said = self.registration.say_again().await;
                let (pause, error) = match self.look().await {
                    Ok(is_asked) if is_asked || !all_said => (RETRY, String::new()),
                    Ok(_) => (LOOK, String::new()),
                    Err(error) => (RETRY, error),
                };
                if !error.is_empty() && error != reported {
                    tracing::warn!(error, "The VSCNode of this node cannot be kept current.");
                }
                // What was just let go of may be what is asked for.
                let _ = timeout(pause, self.registration.words.said()).await;
                reported = error;
            }
        };
        stop.run_until_cancelled(keep).await;
    }

    /// One look; whether this node is asked for something.
    async fn look(&self) -> Result<bool, String> {
        let node = self.register().await?;
        let annotations = node.annotations();
        let has_disks = annotations.contains_key(DETACHED);
        let about_disks = self.answer_for_disks(&node).await;
        let is_fenced = self.answer(&node).await?;
        about_disks?;
        Ok(is_fenced || has_disks)
    }

    /// Answers whether anything of before is left here; whether this node is fenced.
    async fn answer(&self, node: &VscNode) -> Result<bool, String> {
        let annotations = node.annotations();
        let Some(asked) = annotations.get(RELEASED) else {
            return Ok(annotations.contains_key(FENCED));
        };
        if annotations.get(CLEAN) != Some(asked) {
            self.clean().await?;
            self.registration.say_clean(asked).await?;
            tracing::info!("Nothing is left on this node of what it had before it was fenced.");
        }
        Ok(true)
    }

    /// Writes the VSCNode, if it says something else; what it is then. Called twice: it says so.
    async fn register(&self) -> Result<VscNode, String> {
        let registration = &self.registration;
        let writer = Writer {
            client: registration.client.clone(),
        };
        let told = |error: ObjectError| chain(&error);
        let name = &registration.node;
        let known: Option<VscNode> = writer.read(name).await.map_err(told)?;
        let address = known.as_ref().and_then(|it| it.spec.nas.as_ref());
        let address = address.and_then(|it| it.ip.parse().ok());
        let address = registration.address.find(address).await;
        let address = address.map_err(|error| chain(&error))?;
        let mut wanted = registration.wanted(address).await;
        let Some(known) = known else {
            let made = writer.create(&wanted).await.map_err(told)?;
            return made.ok_or_else(|| "another VSCNode was made meanwhile".to_owned());
        };
        if known.spec.block.is_some()
            && known.spec.block != wanted.spec.block
            && self.has_disks().await
        {
            tracing::warn!(
                known = ?known.spec.block.as_ref().map(|it| &it.iqn),
                now = ?wanted.spec.block.as_ref().map(|it| &it.iqn),
                "The initiator of this node has another name now, and disks are in use under the one before, which stays \
                 registered until they are not: restart the node to use the new one."
            );
            wanted.spec.block.clone_from(&known.spec.block);
        }
        if known.spec.nas == wanted.spec.nas && known.spec.block == wanted.spec.block {
            return Ok(known);
        }
        let patch = json!({"spec": {"NAS": wanted.spec.nas, "block": wanted.spec.block}});
        registration.patch(patch).await
    }

    /// Whether disks of arrays are in use, or may be: a VPSA takes away what is attached to an initiator that it does not know
    /// any more.
    async fn has_disks(&self) -> bool {
        self.clean_of_disks().await.is_err()
    }

    /// Says what is left here of volumes, if something is.
    async fn clean(&self) -> Result<(), String> {
        self.clean_of_disks().await?;
        self.clean_of_mounts().await
    }

    /// A share that is still mounted may be written to from memory as soon as the array lets this node in again.
    async fn clean_of_mounts(&self) -> Result<(), String> {
        self.clean_of_mounts_of(None).await
    }

    /// The same of one volume, by its PersistentVolume or what the driver calls it.
    pub(super) async fn clean_of_mounts_of(&self, volume: Option<&str>) -> Result<(), String> {
        let table = self.mounter.table().await;
        let table = table.map_err(|error| chain(&error))?;
        let driver = self.driver.clone();
        let volume = volume.map(str::to_owned);
        let find = move || {
            let roots = kubelet::roots(&table).into_iter();
            let mut mounts = roots.flat_map(|root| {
                let mut mounts = kubelet::mounts_of(&driver, &table, &root);
                mounts.retain(|it| is_of(it, volume.as_deref()));
                mounts.into_iter().map(move |it| root.join(it.path))
            });
            mounts.next()
        };
        match blocking(find).await {
            None => Ok(()),
            Some(place) => Err(format!(
                "a volume is still mounted at {} on this node",
                place.display()
            )),
        }
    }

    /// Ends sessions that nobody uses; says what is left of disks and sessions with arrays, if something is.
    async fn clean_of_disks(&self) -> Result<(), String> {
        self.tidy().await;
        let targets = match self.initiator.targets().await {
            Ok(targets) => targets,
            // A node without iSCSI has none.
            Err(IscsiError::Tool {
                source: ExecError::ToolMissing { .. },
                ..
            }) => BTreeSet::new(),
            Err(error) => return Err(chain(&error)),
        };
        if let Some(target) = targets.first() {
            return Err(format!("a session with {target} is left on this node"));
        }
        for disk in self.disks(None).await.map_err(|error| chain(&error))? {
            let (target, lun) = (&disk.target, disk.lun);
            if !target.contains(ARRAYS) {
                continue;
            }
            if self.is_used(&disk).await.map_err(|error| chain(&error))? {
                return Err(format!("disk {lun} of {target} is in use on this node"));
            }
        }
        Ok(())
    }
}

impl Registration {
    /// Changes the VSCNode; what it is then.
    pub(super) async fn patch(&self, patch: Value) -> Result<VscNode, String> {
        let nodes: Api<VscNode> = Api::all(self.client.clone());
        let (patch, params) = (Patch::Merge(patch), PatchParams::default());
        let patched = nodes.patch(&self.node, &params, &patch).await;
        patched.map_err(|error| chain(&error))
    }

    /// Says that nothing is left on this node, to whoever asked then. Called twice: it is said.
    async fn say_clean(&self, asked: &str) -> Result<(), String> {
        let patch = json!({"metadata": {"annotations": {CLEAN: asked}}});
        self.patch(patch).await.map(drop)
    }

    async fn wanted(&self, address: IpAddr) -> VscNode {
        let file = self.initiator_name.clone();
        let text = blocking(move || std::fs::read_to_string(file).ok()).await;
        let iqn = text.as_deref().and_then(initiator);
        VscNode {
            metadata: ObjectMeta {
                name: Some(self.node.clone()),
                ..ObjectMeta::default()
            },
            spec: VscNodeSpec {
                display_name: self.node.clone(),
                nas: Some(NasAddress {
                    ip: address.to_string(),
                    ..NasAddress::default()
                }),
                block: iqn.map(|iqn| BlockAddress {
                    iqn: iqn.to_owned(),
                    ..BlockAddress::default()
                }),
                ..VscNodeSpec::default()
            },
            status: None,
        }
    }
}

/// `InitiatorName=iqn...`.
fn initiator(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    let name = lines.find_map(|line| line.strip_prefix("InitiatorName="))?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initiator_is_read_from_its_file() {
        let file = "# generated\n InitiatorName= iqn.1993-08.org.debian:01:abc \n";
        assert_eq!(initiator(file), Some("iqn.1993-08.org.debian:01:abc"));
        assert_eq!(initiator("InitiatorName=\n"), None);
    }
}
