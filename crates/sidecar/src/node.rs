//! `stowage sidecar node`: makes the driver known to the kubelet, and says whether it is alive.
//!
//! In place of upstream's node-driver-registrar and livenessprobe. Needs no access to the Kubernetes API, unless it is
//! the one sidecar of a driver that runs whole on every node (`--node-deployment`).

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use futures::TryFutureExt as _;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_service::{LeaseArgs, Process};

use crate::args::{NODE_DEPLOYMENT, RoleArgs, ServerArgs};
use crate::controller::{Controller, ControllerError};
use crate::driver::{
    Change, Driver, DriverError, DriverName, DriverOptions, DriverWatch, Interest,
};
use crate::liveness::{LivenessArgs, LivenessError, Probes, some_time};
use crate::mounts::{self, MountsArgs};
use crate::register::{HostSocket, RegisterError, Registrar, check_directory};
use crate::termination::TerminationArgs;

/// How long a call to the driver may take that a node without roles makes.
const REGISTRATION: Duration = Duration::from_secs(1);

/// Flags of `stowage sidecar node`.
#[derive(clap::Args, Clone, Debug)]
pub struct NodeArgs {
    /// Socket of the driver, as this process sees it
    #[arg(long, value_name = "SOCKET", default_value = "/run/csi/socket")]
    pub csi_address: Endpoint,

    /// Socket of the driver, as the kubelet on the host sees it
    #[arg(long, value_name = "PATH")]
    pub kubelet_registration_path: HostSocket,

    /// The kubelet's folder of registration sockets, as this process sees it
    #[arg(long, value_name = "DIR", default_value = "/registration")]
    pub plugin_registration_path: PathBuf,

    /// Register only a driver of this name [default: any]
    #[arg(long, value_name = "NAME")]
    pub driver_name: Option<DriverName>,

    /// How long a call to the driver may take [default: 1s; with --node-deployment that of each role]
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub timeout: Option<Duration>,

    /// Liveness.
    #[command(flatten)]
    pub liveness: LivenessArgs,

    /// Mounts.
    #[command(flatten)]
    pub mounts: MountsArgs,

    /// Last words.
    #[command(flatten)]
    pub termination: TerminationArgs,

    /// Also run the controller's roles for this node, for drivers that run completely on every node
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
        help_heading = NODE_DEPLOYMENT)]
    pub node_deployment: bool,

    /// Roles.
    #[command(flatten)]
    pub roles: RoleArgs,

    /// Leases are not used, but say where the journal is.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// The API server, for --node-deployment.
    #[command(flatten)]
    pub server: ServerArgs,

    /// What upstream's registrar was to run as; only one value means something.
    #[arg(long, hide = true, default_value = "")]
    mode: String,
}

/// An exec probe of old manifests.
const EXEC_PROBE: &str = "kubelet-registration-probe";

impl NodeArgs {
    /// Was the process started as an exec probe of old manifests? Such a probe must end, and a second registration
    /// beside the real one would be the worst answer. Upstream's says yes to everything by now; so do we.
    pub fn is_exec_probe(&self) -> bool {
        self.mode == EXEC_PROBE
    }
}

/// Why the node's sidecar cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No liveness endpoint.
    #[error(transparent)]
    Liveness(#[from] LivenessError),
    /// The driver is not what it should be.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// No registration.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The roles for this node cannot go on.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

/// Runs until shutdown, which takes the driver off the node.
pub async fn run(args: NodeArgs, process: Process) -> Result<(), NodeError> {
    let registered = process.health.check("registration");
    let metrics = process.metrics.with_registry(ClientMetrics::register);
    let probes = Probes::start(&args.liveness, &args.csi_address, &metrics, &process.health)?;
    check_directory(&args.plugin_registration_path)?;

    let options = DriverOptions {
        endpoint: args.csi_address.clone(),
        timeout: args.timeout.unwrap_or(REGISTRATION),
        metrics,
        interest: if args.node_deployment {
            Interest::Capabilities
        } else {
            Interest::Name
        },
        check: process.health.check("driver"),
    };
    let Some((driver, watch)) = Driver::connect(options, &process.shutdown).await? else {
        return Ok(());
    };
    probes.name_driver(driver.name());
    driver.expect(args.driver_name.as_ref(), &args.csi_address)?;
    let registrar = Registrar::new(
        &args.plugin_registration_path,
        driver.name().clone(),
        args.kubelet_registration_path.clone(),
        registered,
    )?;
    let (shutdown, name) = (process.shutdown.clone(), driver.name().clone());
    let told = mounts::serve(&args.mounts, &name);
    if !args.node_deployment {
        return tokio::select! {
            ended = registrar.run(&shutdown) => Ok(ended?),
            error = renamed(watch) => Err(error.into()),
            () = told => Ok(()),
        };
    }
    let roles = run_roles(&args, process, driver, watch);
    // Registration goes on while the roles finish what is under way.
    let registration = registrar.run(&shutdown).err_into::<NodeError>();
    tokio::select! {
        ended = async { tokio::try_join!(registration, roles.err_into()) } => ended.map(|_| ()),
        () = told => Ok(()),
    }
}

/// The controller's roles, for this node only.
async fn run_roles(
    args: &NodeArgs,
    process: Process,
    driver: Driver,
    watch: DriverWatch,
) -> Result<(), ControllerError> {
    let settings = args.roles.settings(args.timeout, true)?;
    let config = args.server.config().await?;
    let controller = Controller::new(settings, config, &args.lease, process, driver)?;
    controller.serve(watch, args.roles.intents.errand()).await
}

/// Waits for the one thing about a restarted driver that ends its registration.
async fn renamed(mut watch: DriverWatch) -> DriverError {
    loop {
        match watch.next().await {
            // The kubelet connects anew for each call: to it a restart is over as soon as the driver answers.
            Ok(Change::Lost | Change::Back | Change::Different(_)) => {}
            Err(error) => return error,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: NodeArgs,
    }

    fn parse(words: &[&str]) -> Result<NodeArgs, clap::Error> {
        let required = ["node", "--kubelet-registration-path=/plugins/x/csi.sock"];
        Command::try_parse_from(required.iter().chain(words)).map(|command| command.args)
    }

    #[test]
    fn defaults_are_upstreams() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.csi_address, "/run/csi/socket".parse().unwrap());
        assert_eq!(
            args.plugin_registration_path,
            PathBuf::from("/registration")
        );
        assert_eq!(args.timeout, None);
        assert_eq!(args.liveness.port(), None);
        assert_eq!(args.liveness.probe_timeout, Duration::from_secs(3));
        assert!(!args.is_exec_probe());
    }

    #[test]
    fn flags_of_upstreams_manifests_are_taken() {
        let args = parse(&[
            "--csi-address=/csi/csi.sock",
            "--plugin-registration-path=/registration",
            "--connection-timeout=30s",
            "--timeout=30s",
            "--health-port=9809",
            "--mode=registration",
            "--enable-pprof",
            "--automaxprocs=false",
        ]);
        assert_eq!(args.unwrap().liveness.port(), Some(9809));
        assert!(
            parse(&["--mode=kubelet-registration-probe"])
                .unwrap()
                .is_exec_probe()
        );
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_flag() {
        for (words, flag) in [
            (
                "--kubelet-registration-path=plugins/csi.sock",
                "--kubelet-registration-path",
            ),
            ("--csi-address=tcp://127.0.0.1:1", "--csi-address"),
            ("--driver-name=../x", "--driver-name"),
            ("--timeout=0s", "--timeout"),
            ("--probe-timeout=3", "--probe-timeout"),
            ("--health-port=65536", "--health-port"),
        ] {
            let parsed = Command::try_parse_from(["node", words]);
            assert!(parsed.unwrap_err().to_string().contains(flag), "{words}");
        }
    }
}
