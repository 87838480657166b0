//! Who may mount what by NFS.

use reqwest::Method;
use serde_json::json;

use super::{Api, read};
use crate::rest::ApiError;
use crate::rest::call::Call;
use crate::rest::wire::nfs::{ClientGroup, InterfaceGroup, NfsPermission};

/// Whom squashed users become.
const NOBODY: u32 = 65534;

impl Api {
    /// The addresses at which the cluster serves.
    pub(crate) async fn interface_groups(&self) -> Result<Vec<InterfaceGroup>, ApiError> {
        let route = "interfaceGroups";
        self.list(&Call::get(route, route, "list the interface groups"))
            .await
    }

    /// The client group of this name, which is made if there is none.
    ///
    /// Called twice: the same group.
    pub(crate) async fn client_group(&self, name: &str) -> Result<ClientGroup, ApiError> {
        if let Some(found) = self.find_client_group(name).await? {
            return Ok(found);
        }
        let doing = "create an NFS client group";
        let route = "nfs/clientGroups";
        let call = Call::with(Method::POST, route, route, doing);
        let body = json!({ "name": name });
        match self.client.call(&call, Some(&body), self.deadline).await {
            Ok(answer) => read(answer.data, doing),
            // Another node may have made it.
            Err(error @ (ApiError::Conflict { .. } | ApiError::Refused { .. })) => {
                self.find_client_group(name).await?.ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn find_client_group(&self, name: &str) -> Result<Option<ClientGroup>, ApiError> {
        let route = "nfs/clientGroups";
        let call = Call::get(route, route, "look for an NFS client group");
        let found: Vec<ClientGroup> = self.find(call, &[("name", name)]).await?;
        Ok(found.into_iter().find(|group| group.name == name))
    }

    /// Puts an address into a client group. Called twice: it is in it.
    pub(crate) async fn add_client_rule(
        &self,
        group: &ClientGroup,
        rule: &str,
    ) -> Result<(), ApiError> {
        let doing = "put this node into an NFS client group";
        let path = format!("nfs/clientGroups/{}/rules", group.uid);
        let call = Call::with(Method::POST, "nfs/clientGroups/{uid}/rules", path, doing);
        let body = json!({ "ip": rule });
        match self.client.call(&call, Some(&body), self.deadline).await {
            Ok(_) | Err(ApiError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All permissions.
    pub(crate) async fn nfs_permissions(&self) -> Result<Vec<NfsPermission>, ApiError> {
        let route = "nfs/permissions";
        self.list(&Call::get(route, route, "list NFS permissions"))
            .await
    }

    /// Lets a client group read and write all of a filesystem. Called twice: it may.
    pub(crate) async fn create_nfs_permission(
        &self,
        filesystem: &str,
        group: &str,
    ) -> Result<(), ApiError> {
        let doing = "give an NFS client group permission for the filesystem";
        let route = "nfs/permissions";
        let call = Call::with(Method::POST, route, route, doing);
        let body = json!({
            "filesystem": filesystem,
            "group": group,
            "path": "/",
            "permission_type": "RW",
            "squash_mode": "none",
            "anon_uid": NOBODY,
            "anon_gid": NOBODY,
            "supported_versions": ["V3", "V4"],
            "priority": 0,
        });
        match self.client.call(&call, Some(&body), self.deadline).await {
            Ok(_) | Err(ApiError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes all permissions for a filesystem back; returns whether there were any. Called twice: there is none.
    pub(crate) async fn revoke_nfs(&self, filesystem: &str) -> Result<bool, ApiError> {
        let mut of_filesystem = self.nfs_permissions().await?;
        of_filesystem.retain(|permission| permission.filesystem == filesystem);
        for permission in &of_filesystem {
            self.delete_nfs_permission(&permission.uid).await?;
        }
        Ok(!of_filesystem.is_empty())
    }

    /// Takes a permission back. Called twice: it is gone.
    async fn delete_nfs_permission(&self, uid: &str) -> Result<(), ApiError> {
        let path = format!("nfs/permissions/{uid}");
        let doing = "take an NFS permission back";
        let call = Call::with(Method::DELETE, "nfs/permissions/{uid}", path, doing);
        match self.client.call(&call, None, self.deadline).await {
            Ok(_) | Err(ApiError::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
