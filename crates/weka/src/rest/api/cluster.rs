//! What else a cluster can be asked about itself.

use super::{Api, read};
use crate::rest::ApiError;
use crate::rest::call::Call;
use crate::rest::wire::{Cluster, Container, Kms, Process};
use crate::version::Capability;

impl Api {
    /// All containers of the cluster, clients and backends.
    pub(crate) async fn containers(&self) -> Result<Vec<Container>, ApiError> {
        let call = Call::get("containers", "containers", "list the cluster's containers");
        self.list(&call).await
    }

    /// The bytes that no filesystem has.
    pub(crate) async fn unprovisioned(&self) -> Result<u64, ApiError> {
        let doing = "learn how much room the cluster has";
        let call = Call::get("cluster", "cluster", doing);
        let answer = self.client.call(&call, None, self.deadline).await?;
        let cluster: Cluster = read(answer.data, doing)?;
        Ok(cluster.capacity.unprovisioned_bytes)
    }

    /// Whether the cluster can count what a directory holds, to give it a quota.
    pub(crate) async fn has_data_services(&self) -> Result<bool, ApiError> {
        let has_processes = self.facts().await?.has(Capability::Processes);
        let path = if has_processes { "processes" } else { "nodes" };
        let call = Call::get(path, path, "list the cluster's processes");
        let processes: Vec<Process> = self.list(&call).await?;
        Ok(processes.iter().any(|process| {
            process.status == "UP" && process.roles.iter().any(|role| role == "DATASERV")
        }))
    }

    /// The key management server, if the cluster has one.
    pub(crate) async fn kms(&self) -> Result<Option<Kms>, ApiError> {
        let doing = "learn which KMS the cluster uses";
        let call = Call::get("kms", "kms", doing);
        match self.client.call(&call, None, self.deadline).await {
            Ok(answer) if answer.data.is_null() => Ok(None),
            Ok(answer) => {
                let kms: Kms = read(answer.data, doing)?;
                Ok(Some(kms).filter(|kms| !kms.kind.is_empty()))
            }
            Err(ApiError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
