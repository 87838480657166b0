//! The client of the control API, for tests.

use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::faults::Fault;
use super::frontends::{Report, Stage};
use super::server::{ErrorBody, Hang, Restart, Revocation, Status, Upgrade};
use crate::weka::core::{Knobs, SeenRequest, fresh_uid};
use crate::weka::state::access::Role;
use crate::weka::state::mounts::{Grant, MountRequest};
use crate::weka::state::{Container, InterfaceGroup, Kms, Object, Organization, Process, User};

/// Why the control API did not do something.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It does not answer.
    #[error("the control API of the simulator does not answer")]
    Unreachable(#[from] reqwest::Error),
    /// It says no.
    #[error("the simulator says: {0}")]
    Refused(String),
}

type Result<T, E = ControlError> = std::result::Result<T, E>;

/// The client of a cluster's control API.
#[derive(Clone, Debug)]
pub struct Control {
    base: String,
    http: reqwest::Client,
}

/// It uses plain HTTP: no certificates are needed, and an image may have none.
fn plain_client() -> reqwest::Client {
    let builder = reqwest::Client::builder().tls_certs_only(std::iter::empty());
    builder.build().expect("no part of this can be wrong")
}

impl Control {
    /// For the cluster whose `--control` is at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        // Its constructor wants a TLS provider even for plain HTTP.
        stowage_service::client::install_crypto_provider();
        Self {
            base: url.into().trim_end_matches('/').to_owned(),
            http: plain_client(),
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// How the cluster is.
    pub async fn status(&self) -> Result<Status> {
        self.call(Method::GET, "status", None::<&()>).await
    }

    /// The identity of the filesystem with this name, of any organization.
    pub async fn filesystem_uid(&self, name: &str) -> Result<Option<String>> {
        let filesystems = self.status().await?.filesystems;
        Ok(filesystems
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, uid)| uid))
    }

    /// Closes an endpoint and its connections.
    pub async fn stop_endpoint(&self, number: usize) -> Result<()> {
        self.post(&format!("endpoints/{number}/stop"), &()).await
    }

    /// Opens it again, at the same port.
    pub async fn start_endpoint(&self, number: usize) -> Result<()> {
        self.post(&format!("endpoints/{number}/start"), &()).await
    }

    /// Puts a fault into effect; returns its number.
    pub async fn add_fault(&self, fault: Fault) -> Result<u64> {
        self.call(Method::POST, "faults", Some(&fault)).await
    }

    /// Ends all faults.
    pub async fn clear_faults(&self) -> Result<()> {
        self.send(Method::DELETE, "faults", None::<&()>)
            .await
            .map(drop)
    }

    /// Turns knobs: `control.turn(|knobs| knobs.quota_delay = 5000)`.
    pub async fn turn(&self, change: impl FnOnce(&mut Knobs)) -> Result<()> {
        let mut knobs: Knobs = self.call(Method::GET, "knobs", None::<&()>).await?;
        change(&mut knobs);
        self.send(Method::PUT, "knobs", Some(&knobs))
            .await
            .map(drop)
    }

    /// The cluster runs another version from now on.
    pub async fn upgrade(&self, release: &str) -> Result<()> {
        let release = release.to_owned();
        let upgrade = Upgrade { release };
        self.send(Method::PUT, "release", Some(&upgrade))
            .await
            .map(drop)
    }

    /// Access tokens are void, refresh tokens if asked for.
    pub async fn revoke_tokens(&self, refresh: bool) -> Result<()> {
        self.post("tokens/revoke", &Revocation { refresh }).await
    }

    /// The cluster reads everything from its data directory again; nothing answers for `down`.
    pub async fn restart(&self, down: Duration) -> Result<()> {
        let down = u64::try_from(down.as_millis()).unwrap_or(u64::MAX);
        self.post("restart", &Restart { down }).await
    }

    /// Adds or replaces any object.
    pub async fn put(&self, object: Object) -> Result<()> {
        self.post("objects", &object).await
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

    /// The requests to the REST API since the last call.
    pub async fn take_requests(&self) -> Result<Vec<SeenRequest>> {
        self.call(Method::DELETE, "requests", None::<&()>).await
    }

    /// Operations on the files of a filesystem hang, or go on.
    pub async fn hang(&self, filesystem_uid: &str, hung: bool) -> Result<()> {
        let path = format!("filesystems/{filesystem_uid}/hang");
        self.send(Method::PUT, &path, Some(&Hang { hung }))
            .await
            .map(drop)
    }

    /// What the stand-ins of kernel files on a frontend's node are to say.
    pub async fn set_stage(&self, container: &str, stage: Stage) -> Result<()> {
        self.send(Method::PUT, &format!("frontends/{container}"), Some(&stage))
            .await
            .map(drop)
    }

    /// A frontend says that it is there.
    pub async fn report(&self, report: &Report) -> Result<Stage> {
        self.call(Method::POST, "frontends", Some(report)).await
    }

    /// A frontend asks whether it may mount.
    pub async fn mount(&self, request: &MountRequest) -> Result<Grant> {
        self.call(Method::POST, "mounts", Some(request)).await
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<()> {
        self.send(Method::POST, path, Some(body)).await.map(drop)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T> {
        Ok(self.send(method, path, body).await?.json().await?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<reqwest::Response> {
        let mut request = self.http.request(method, format!("{}/{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.text().await?;
        let message = serde_json::from_str(&text)
            .map_or(format!("{status}: {text}"), |c: ErrorBody| c.message);
        Err(ControlError::Refused(message))
    }
}
