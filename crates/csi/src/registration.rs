//! How the kubelet gets to know a driver.
//!
//! The kubelet watches a folder for sockets, asks each one what it is, and says what came of it. This is the
//! answering side; serve it with [`server::serve`](crate::server::serve) on `<driver>-reg.sock` in that folder.
//! Removing the socket's file, which the end of the server does, takes the driver off the node.

use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::proto::registration::registration_server::{Registration, RegistrationServer};
use crate::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// What kind of plugin this is, in the kubelet's words.
const PLUGIN_TYPE: &str = "CSIPlugin";
/// The version the kubelet compares; every CSI 1.x driver gives this one.
const SUPPORTED_VERSION: &str = "1.0.0";

/// What the kubelet said last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KubeletVerdict {
    /// Nothing yet.
    #[default]
    Pending,
    /// The driver is registered on this node.
    Registered,
    /// It is not, for this reason. What the driver itself answered is not asked for again: the kubelet takes note of a socket before it
    /// asks, and looks at it again only if another file takes its place.
    Refused(String),
}

/// Answers the kubelet for one driver.
#[derive(Debug)]
pub struct DriverRegistration {
    info: PluginInfo,
    verdict: watch::Sender<KubeletVerdict>,
}

impl DriverRegistration {
    /// `socket` is the driver's socket as the host sees it: the kubelet connects to it.
    pub fn new(driver: &str, socket: &str) -> Self {
        Self {
            info: PluginInfo {
                r#type: PLUGIN_TYPE.to_owned(),
                name: driver.to_owned(),
                endpoint: socket.to_owned(),
                supported_versions: vec![SUPPORTED_VERSION.to_owned()],
            },
            verdict: watch::Sender::default(),
        }
    }

    /// Follows what the kubelet says. What to do about a refusal is up to the caller.
    pub fn verdict(&self) -> watch::Receiver<KubeletVerdict> {
        self.verdict.subscribe()
    }

    /// The gRPC service, to be added to the routes of a server.
    pub fn into_service(self) -> RegistrationServer<Self> {
        RegistrationServer::new(self)
    }
}

#[tonic::async_trait]
impl Registration for DriverRegistration {
    /// Called twice: the same answer.
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    /// Called twice: the last word counts.
    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let driver = &self.info.name;
        let verdict = if status.plugin_registered {
            tracing::info!(driver, "The kubelet registered the driver.");
            KubeletVerdict::Registered
        } else {
            let reason = &status.error;
            tracing::error!(driver, reason, "The kubelet refused the driver.");
            KubeletVerdict::Refused(status.error)
        };
        self.verdict.send_replace(verdict);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
