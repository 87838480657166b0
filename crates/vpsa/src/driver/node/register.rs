//! What the cluster is told about this node: its VSCNode, and its sessions.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use stowage_api::causes::chain;
use stowage_api::vpsa::{
    BlockAddress, IscsiStatus, NasAddress, VolumeAttachment, VscNode, VscNodeSpec,
};
use stowage_host::blocking;
use stowage_kubernetes::object_error::ObjectError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::network::{AddressError, Network, choose, own_addresses};
use crate::driver::names::attachment_name;
use crate::vsc::write::Writer;

/// How soon it is tried again, and how often it is looked whether the node is still the same.
const RETRY: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(60);

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

impl Registration {
    /// Keeps the VSCNode current until `stop`.
    pub async fn keep(&self, stop: &CancellationToken) {
        let mut reported = String::new();
        let keep = async {
            loop {
                let error = match self.register().await {
                    Ok(()) => String::new(),
                    Err(error) => error,
                };
                if !error.is_empty() && error != reported {
                    tracing::warn!(error, "The VSCNode of this node cannot be kept current.");
                }
                sleep(if error.is_empty() { LOOK } else { RETRY }).await;
                reported = error;
            }
        };
        stop.run_until_cancelled(keep).await;
    }

    /// Writes the VSCNode, if it says something else. Called twice: it says so.
    async fn register(&self) -> Result<(), String> {
        let writer = Writer {
            client: self.client.clone(),
        };
        let told = |error: ObjectError| chain(&error);
        let known: Option<VscNode> = writer.read(&self.node).await.map_err(told)?;
        let address = known.as_ref().and_then(|it| it.spec.nas.as_ref());
        let address = address.and_then(|it| it.ip.parse().ok());
        let address = self.address.find(address).await;
        let wanted = self.wanted(address.map_err(|error| chain(&error))?).await;
        let Some(known) = known else {
            return writer.create(&wanted).await.map(drop).map_err(told);
        };
        if known.spec.nas == wanted.spec.nas && known.spec.block == wanted.spec.block {
            return Ok(());
        }
        let patch =
            Patch::Merge(json!({"spec": {"NAS": wanted.spec.nas, "block": wanted.spec.block}}));
        let nodes: Api<VscNode> = writer.api();
        let (name, params) = (&self.node, PatchParams::default());
        nodes
            .patch(name, &params, &patch)
            .await
            .map(drop)
            .map_err(|error| chain(&error))
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

    /// The target at which the disk of a volume is attached to this node. Not known without an API server: nothing waits for
    /// one, since a session too many does no harm.
    pub async fn target(&self, volume: &str) -> Option<String> {
        let writer = Writer {
            client: self.client.clone(),
        };
        let name = attachment_name(volume, &self.node);
        let read = writer.read::<VolumeAttachment>(&name).await;
        let attachment = read.unwrap_or_else(|error| {
            let error = chain(&error);
            tracing::warn!(volume, error, "A session with its VPSA may be left.");
            None
        });
        let target = attachment?.status?.block?.target;
        Some(target).filter(|target| !target.is_empty())
    }

    /// Says whether there is a session for a volume. Only people look at it, so nothing fails for it.
    pub async fn say(&self, volume: &str, status: IscsiStatus) {
        let name = attachment_name(volume, &self.node);
        let patch = Patch::Merge(json!({"status": {"Block": {"ISCSIStatus": status}}}));
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let params = PatchParams::default();
        if let Err(error) = attachments.patch_status(&name, &params, &patch).await {
            let error = chain(&error);
            tracing::info!(
                name,
                error,
                "The VolumeAttachment is not told of the session."
            );
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
