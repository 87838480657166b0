//! The client of the control API, for tests.

use reqwest::Method;

use super::frontends::{Report, Stage};
use super::server::{Hang, Revocation, Status, Upgrade};
use crate::control::{Client, ControlError};
use crate::weka::core::{Knobs, fresh_uid};
use crate::weka::state::access::Role;
use crate::weka::state::mounts::{Grant, MountRequest};
use crate::weka::state::{Container, InterfaceGroup, Kms, Object, Organization, Process, User};

type Result<T, E = ControlError> = std::result::Result<T, E>;

/// The client of a cluster's control API, with what all simulators have.
#[derive(Clone, Debug)]
pub struct Control {
    client: Client,
}

impl std::ops::Deref for Control {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Control {
    /// For the cluster whose `--control` is at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        let client = Client::new(url);
        Self { client }
    }

    /// How the cluster is.
    pub async fn status(&self) -> Result<Status> {
        self.get("status").await
    }

    /// The identity of the filesystem with this name, of any organization.
    pub async fn filesystem_uid(&self, name: &str) -> Result<Option<String>> {
        let filesystems = self.status().await?.filesystems;
        Ok(filesystems
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, uid)| uid))
    }

    /// Turns knobs: `control.turn(|knobs| knobs.quota_delay = 5000)`.
    pub async fn turn(&self, change: impl FnOnce(&mut Knobs)) -> Result<()> {
        self.turn_knobs(change).await
    }

    /// The cluster runs another version from now on.
    pub async fn upgrade(&self, release: &str) -> Result<()> {
        let release = release.to_owned();
        let upgrade = Upgrade { release };
        self.client.put("release", &upgrade).await
    }

    /// Access tokens are void, refresh tokens if asked for.
    pub async fn revoke_tokens(&self, refresh: bool) -> Result<()> {
        self.post("tokens/revoke", &Revocation { refresh }).await
    }

    /// Adds or replaces any object.
    pub async fn put(&self, object: Object) -> Result<()> {
        self.post("objects", &object).await
    }

    /// What is being created or added is there from now on, however long that was to take.
    pub async fn finish(&self) -> Result<()> {
        self.post("finish", &()).await
    }

    /// Adds an organization.
    pub async fn add_organization(&self, id: u32, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.put(Object::Organization(Organization { id, name }))
            .await
    }

    /// Adds a user.
    pub async fn add_user(
        &self,
        org_id: u32,
        username: &str,
        password: &str,
        role: Role,
    ) -> Result<()> {
        let user = User {
            uid: fresh_uid(),
            username: username.to_owned(),
            password: password.to_owned(),
            org_id,
            role,
        };
        self.put(Object::User(user)).await
    }

    /// Adds a process with the role DATASERV: quotas may be set on directories that are not empty.
    pub async fn add_data_services(&self) -> Result<()> {
        self.put(Object::Process(Process {
            uid: fresh_uid(),
            hostname: "data-services".to_owned(),
            mode: "backend".to_owned(),
            roles: vec!["DATASERV".to_owned()],
            ips: Vec::new(),
            mgmt_port: 0,
            status: "UP".to_owned(),
        }))
        .await
    }

    /// Adds a container that no frontend reported.
    pub async fn add_container(&self, container: Container) -> Result<()> {
        self.put(Object::Container(container)).await
    }

    /// Configures the key management server.
    pub async fn set_kms(&self, kms: Kms) -> Result<()> {
        self.put(Object::Kms(kms)).await
    }

    /// Adds addresses that serve NFS.
    pub async fn add_interface_group(&self, group: InterfaceGroup) -> Result<()> {
        self.put(Object::InterfaceGroup(group)).await
    }

    /// Operations on the files of a filesystem hang, or go on.
    pub async fn hang(&self, filesystem_uid: &str, hung: bool) -> Result<()> {
        let path = format!("filesystems/{filesystem_uid}/hang");
        self.client.put(&path, &Hang { hung }).await
    }

    /// What the stand-ins of kernel files on a frontend's node are to say.
    pub async fn set_stage(&self, container: &str, stage: Stage) -> Result<()> {
        self.client
            .put(&format!("frontends/{container}"), &stage)
            .await
    }

    /// A frontend says that it is there.
    pub async fn report(&self, report: &Report) -> Result<Stage> {
        self.call(Method::POST, "frontends", Some(report)).await
    }

    /// A frontend asks whether it may mount.
    pub async fn mount(&self, request: &MountRequest) -> Result<Grant> {
        self.call(Method::POST, "mounts", Some(request)).await
    }
}
