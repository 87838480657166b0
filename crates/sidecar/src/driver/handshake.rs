//! The first calls to a driver: wait until it is ready, then ask what it is.

use std::time::Duration;

use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::group_controller_client::GroupControllerClient;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest,
    GroupControllerGetCapabilitiesRequest, NodeGetCapabilitiesRequest, ProbeRequest,
};
use stowage_service::health::Check;
use tokio::time::sleep;
use tonic::{Code, Response, Status};

use super::{
    About, Capabilities, Driver, DriverError, DriverName, DriverOptions, Interest, InvalidName,
    Lifeline, shortened,
};

/// How often a driver that is not ready is asked again.
const INTERVAL: Duration = Duration::from_secs(1);

/// How much of a driver's own words is worth showing.
const SHOWN: usize = 500;

/// Asks, and asks again.
pub(super) struct Handshake {
    endpoint: Endpoint,
    connection: Connection,
    patience: Duration,
    interest: Interest,
    waiting: Waiting,
}

/// What stands between us and a driver that is known.
enum Setback {
    /// May pass: the reason.
    Passing(String),
    /// Will not.
    Name(InvalidName),
}

impl Handshake {
    pub(super) fn new(options: DriverOptions) -> Self {
        // Shorter than the deadline: "no such file" tells more than "deadline exceeded".
        let patience = options.timeout / 2;
        let client = ClientOptions {
            timeout: options.timeout,
            patience,
            metrics: options.metrics,
        };
        Self {
            connection: Connection::new(&options.endpoint, client),
            endpoint: options.endpoint,
            patience,
            interest: options.interest,
            waiting: Waiting {
                check: options.check,
                said: None,
            },
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for a driver that is ready.
    pub(super) async fn make(&mut self) -> Result<(Driver, Lifeline), DriverError> {
        loop {
            let reason = match self.attempt().await {
                Ok((about, lifeline)) => return Ok((self.known(about), lifeline)),
                Err(Setback::Passing(reason)) => reason,
                Err(Setback::Name(source)) => {
                    let endpoint = self.endpoint.clone();
                    return Err(DriverError::InvalidName { endpoint, source });
                }
            };
            self.waiting.because(&self.endpoint, &reason);
            sleep(INTERVAL).await;
        }
    }

    /// Waits for a driver that was lost. The pause keeps a server that hangs up on idle connections from being
    /// asked without end.
    pub(super) async fn make_again(&mut self) -> Result<(Driver, Lifeline), DriverError> {
        sleep(INTERVAL).await;
        self.make().await
    }

    /// Takes note that `driver` went away.
    pub(super) fn lost(&mut self, driver: &Driver) {
        self.waiting.check.not_ready("its connection was lost");
        tracing::warn!(driver = %driver.name(), "The connection to the driver was lost.");
    }

    fn known(&mut self, about: About) -> Driver {
        self.waiting.over();
        // From now on calls are counted under this name, including those of the next handshake.
        self.connection = self
            .connection
            .clone()
            .with_driver_name(about.name.as_str());
        tracing::info!(
            driver = %about.name,
            version = about.vendor_version,
            capabilities = ?about.capabilities,
            "The driver is ready."
        );
        Driver {
            connection: self.connection.clone(),
            about: about.into(),
        }
    }

    async fn attempt(&self) -> Result<(About, Lifeline), Setback> {
        // First of all: a restart after this point ends the lifeline, so no answer below can go stale unnoticed.
        let lifeline = Lifeline::open(&self.endpoint, self.patience)
            .await
            .map_err(|error| Setback::Passing(format!("its socket: {error}")))?;
        Ok((self.ask().await?, lifeline))
    }

    async fn ask(&self) -> Result<About, Setback> {
        let mut identity = IdentityClient::new(self.connection.clone());
        let probe = required("Probe", identity.probe(ProbeRequest {}).await)?;
        // An answer without the field means ready, says the specification.
        if probe.ready == Some(false) {
            return Err(Setback::Passing("it says that it is not ready".to_owned()));
        }
        let info = identity.get_plugin_info(GetPluginInfoRequest {}).await;
        let info = required("GetPluginInfo", info)?;
        Ok(About {
            name: info.name.parse::<DriverName>().map_err(Setback::Name)?,
            vendor_version: shortened(&info.vendor_version, SHOWN),
            capabilities: match self.interest {
                Interest::Name => Capabilities::default(),
                Interest::Capabilities => self.capabilities().await?,
            },
        })
    }

    async fn capabilities(&self) -> Result<Capabilities, Setback> {
        let mut found = Capabilities::default();
        let mut identity = IdentityClient::new(self.connection.clone());
        let request = GetPluginCapabilitiesRequest {};
        let answer = identity.get_plugin_capabilities(request).await;
        if let Some(answer) = optional("GetPluginCapabilities", answer)? {
            found = found.with_plugin(&answer);
        }
        if found.controller_service() {
            let mut controller = ControllerClient::new(self.connection.clone());
            let request = ControllerGetCapabilitiesRequest {};
            let answer = controller.controller_get_capabilities(request).await;
            if let Some(answer) = optional("ControllerGetCapabilities", answer)? {
                found = found.with_controller(&answer);
            }
        }
        if found.group_controller_service() {
            let mut group = GroupControllerClient::new(self.connection.clone());
            let request = GroupControllerGetCapabilitiesRequest {};
            let answer = group.group_controller_get_capabilities(request).await;
            if let Some(answer) = optional("GroupControllerGetCapabilities", answer)? {
                found = found.with_group(&answer);
            }
        }
        // No flag announces the node's service: a controller's socket answers UNIMPLEMENTED.
        let mut node = NodeClient::new(self.connection.clone());
        let answer = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
        if let Some(answer) = optional("NodeGetCapabilities", answer.await)? {
            found = found.with_node(&answer);
        }
        Ok(found)
    }
}

fn required<T>(rpc: &str, answer: Result<Response<T>, Status>) -> Result<T, Setback> {
    match answer {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(Setback::Passing(refusal(rpc, &status))),
    }
}

/// The answer to a call that a driver need not have.
fn optional<T>(rpc: &str, answer: Result<Response<T>, Status>) -> Result<Option<T>, Setback> {
    match answer {
        Err(status) if status.code() == Code::Unimplemented => Ok(None),
        answer => required(rpc, answer).map(Some),
    }
}

/// A failed call in one sentence.
pub(crate) fn refusal(rpc: &str, status: &Status) -> String {
    let message = shortened(status.message(), SHOWN);
    format!("{rpc} ended with {:?}: {message}", status.code())
}

/// Says why we wait: on `/readyz` always the latest reason, in the log each reason once.
struct Waiting {
    check: Check,
    said: Option<String>,
}

impl Waiting {
    fn because(&mut self, endpoint: &Endpoint, reason: &str) {
        self.check.not_ready(reason);
        // A port or a time in the driver's words is no new reason.
        let gist: String = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.said.as_ref() != Some(&gist) {
            tracing::warn!(%endpoint, reason, "Waiting for the driver; it is asked again every second.");
            self.said = Some(gist);
        }
    }

    fn over(&mut self) {
        self.check.ready();
        self.said = None;
    }
}
