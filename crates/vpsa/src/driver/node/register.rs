//! What the cluster is told about this node: its VSCNode, and its sessions.

use std::net::{IpAddr, UdpSocket};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// It was given.
    Given(IpAddr),
    /// The one from which this network is reached.
    Towards(IpAddr),
}

impl Address {
    /// The address.
    fn find(self) -> std::io::Result<IpAddr> {
        let network = match self {
            Self::Given(address) => return Ok(address),
            Self::Towards(network) => network,
        };
        let any: IpAddr = match network {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        // Nothing is sent: the kernel only chooses the address it would send from.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((network, 9))?;
        Ok(socket.local_addr()?.ip())
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
        let address = self.address.find().map_err(|error| {
            format!("no address in the storage network: {error}; correct --storage-network")
        })?;
        let wanted = self.wanted(address).await;
        let writer = Writer {
            client: self.client.clone(),
        };
        let told = |error: ObjectError| chain(&error);
        let known: Option<VscNode> = writer.read(&self.node).await.map_err(told)?;
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
    fn the_initiator_is_read_and_the_address_is_the_one_the_kernel_would_use() {
        let file = "# generated\n InitiatorName= iqn.1993-08.org.debian:01:abc \n";
        assert_eq!(initiator(file), Some("iqn.1993-08.org.debian:01:abc"));
        assert_eq!(initiator("InitiatorName=\n"), None);
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(Address::Towards(local).find().unwrap(), local);
        assert_eq!(Address::Given(local).find().unwrap(), local);
    }
}
