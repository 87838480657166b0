//! The driver under test: its sockets, and what it said about itself.

mod ready;

use std::time::Duration;

use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::group_controller_client::GroupControllerClient;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::{
    ControllerGetCapabilitiesRequest, ControllerServiceCapability, GetPluginCapabilitiesRequest,
    GetPluginInfoRequest, GetPluginInfoResponse, GroupControllerGetCapabilitiesRequest,
    GroupControllerServiceCapability, NodeGetCapabilitiesRequest, NodeGetInfoRequest,
    NodeServiceCapability,
};

pub use self::ready::DriverError;
use crate::capability::{Facts, Known, Need, Service};
use crate::check::ask;
use crate::options::Options;

/// How long a call waits for a socket that is gone. Short: a driver that dies under a case is what we want to see.
const PATIENCE: Duration = Duration::from_secs(1);

/// The driver under test.
pub(crate) struct Driver {
    sockets: Sockets,
    /// Absent if it does not even say its name; the case about that fails.
    pub(crate) info: Option<GetPluginInfoResponse>,
    pub(crate) facts: Facts,
}

/// Where the driver listens: one socket, or one per service.
struct Sockets {
    controller: (Endpoint, Connection),
    node: Option<(Endpoint, Connection)>,
}

impl Driver {
    /// Waits until the driver is ready, and asks what it can do.
    pub(crate) async fn connect(
        options: &Options,
        waiting: impl FnMut(String),
    ) -> Result<Self, DriverError> {
        let sockets = Sockets::new(options);
        sockets
            .wait_until_ready(options.ready_timeout, waiting)
            .await?;
        let mut identity = sockets.identity();
        let info = ask(
            "GetPluginInfo",
            identity.get_plugin_info(GetPluginInfoRequest {}),
        );
        Ok(Self {
            info: info.await.known().ok(),
            facts: sockets.ask_facts().await,
            sockets,
        })
    }

    /// Waits again, when the driver went away under a case.
    pub(crate) async fn wait_until_ready(&self, timeout: Duration) -> Result<(), DriverError> {
        self.sockets.wait_until_ready(timeout, drop).await
    }

    /// Identity at each endpoint, with the words that tell them apart in the report.
    pub(crate) fn identities(&self) -> Vec<(&'static str, IdentityClient<Connection>)> {
        let controller = self.sockets.identity();
        match &self.sockets.node {
            None => vec![("", controller)],
            Some((_, node)) => vec![
                (" at the controller endpoint", controller),
                (" at the node endpoint", IdentityClient::new(node.clone())),
            ],
        }
    }

    pub(crate) fn controller(&self) -> ControllerClient<Connection> {
        self.sockets.controller()
    }

    pub(crate) fn group(&self) -> GroupControllerClient<Connection> {
        self.sockets.group()
    }

    pub(crate) fn node(&self) -> NodeClient<Connection> {
        self.sockets.node()
    }
}

impl Sockets {
    fn new(options: &Options) -> Self {
        let connect = |endpoint: &Endpoint| {
            let client = ClientOptions {
                timeout: options.call_timeout,
                patience: PATIENCE,
                metrics: ClientMetrics::default(),
            };
            (endpoint.clone(), Connection::new(endpoint, client))
        };
        let separate = options.node_endpoint != options.controller_endpoint;
        Self {
            controller: connect(&options.controller_endpoint),
            node: separate.then(|| connect(&options.node_endpoint)),
        }
    }

    fn identity(&self) -> IdentityClient<Connection> {
        IdentityClient::new(self.controller.1.clone())
    }

    fn controller(&self) -> ControllerClient<Connection> {
        ControllerClient::new(self.controller.1.clone())
    }

    fn group(&self) -> GroupControllerClient<Connection> {
        GroupControllerClient::new(self.controller.1.clone())
    }

    fn node(&self) -> NodeClient<Connection> {
        let (_, connection) = self.node.as_ref().unwrap_or(&self.controller);
        NodeClient::new(connection.clone())
    }

    /// A service that the driver does not claim to have is not asked.
    async fn ask_facts(&self) -> Facts {
        let mut identity = self.identity();
        let plugin = ask(
            "GetPluginCapabilities",
            identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {}),
        );
        let mut facts = Facts {
            plugin: plugin.await.known().map(|answer| answer.capabilities),
            controller: Ok(Vec::new()),
            group: Ok(Vec::new()),
            node: self.ask_node_capabilities().await,
            node_info: ask(
                "NodeGetInfo",
                self.node().node_get_info(NodeGetInfoRequest {}),
            )
            .await
            .known(),
        };
        match facts.has(Need::Plugin(Service::ControllerService)) {
            Ok(true) => facts.controller = self.ask_controller_capabilities().await,
            Ok(false) => {}
            Err(failure) => facts.controller = Err(failure),
        }
        match facts.has(Need::Plugin(Service::GroupControllerService)) {
            Ok(true) => facts.group = self.ask_group_capabilities().await,
            Ok(false) => {}
            Err(failure) => facts.group = Err(failure),
        }
        facts
    }

    async fn ask_controller_capabilities(&self) -> Known<Vec<ControllerServiceCapability>> {
        let mut client = self.controller();
        let call = client.controller_get_capabilities(ControllerGetCapabilitiesRequest {});
        ask("ControllerGetCapabilities", call)
            .await
            .known()
            .map(|answer| answer.capabilities)
    }

    async fn ask_group_capabilities(&self) -> Known<Vec<GroupControllerServiceCapability>> {
        let mut client = self.group();
        let call =
            client.group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest {});
        ask("GroupControllerGetCapabilities", call)
            .await
            .known()
            .map(|answer| answer.capabilities)
    }

    async fn ask_node_capabilities(&self) -> Known<Vec<NodeServiceCapability>> {
        let mut client = self.node();
        let call = client.node_get_capabilities(NodeGetCapabilitiesRequest {});
        ask("NodeGetCapabilities", call)
            .await
            .known()
            .map(|answer| answer.capabilities)
    }
}
