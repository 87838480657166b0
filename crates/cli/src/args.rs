//! What can be typed. Help texts are written here and nowhere else.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use stowage_api::CrdGroup;

/// Puts CSI storage on a Kubernetes cluster and keeps it there.
#[derive(Debug, Parser)]
#[command(
    name = "stowage",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  stowage status                                  which CSI drivers run on which nodes
  stowage status --context prod --output json     the same for scripts
  stowage crds | kubectl apply -f -               teach a cluster about snapshots
  stowage operator --kubeconfig admin.conf        drivers from CSIDriverDeployments
  stowage driver hostpath --endpoint unix:///csi/csi.sock     the embedded driver
  stowage conformance --endpoint unix:///csi/csi.sock         is a driver as it should be?
  stowage sidecar node --csi-address /csi/csi.sock ...        the sidecar of a driver's node pod

`stowage help COMMAND` says more about one command."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The roles of the binary.
#[derive(Debug, Subcommand)]
pub enum Command {
    // Boxed: it is by far the largest.
    #[command(after_help = "\
Examples:
  stowage conformance --endpoint unix:///csi/csi.sock
  stowage conformance --endpoint unix:///csi/csi.sock --focus Snapshot --junit report.xml
  stowage conformance --list")]
    Conformance(Box<stowage_conformance::ConformanceArgs>),
    Crds(CrdsArgs),
    #[command(subcommand)]
    Driver(Driver),
    // Boxed, too: the command is parsed once, and most others are small.
    Operator(Box<OperatorArgs>),
    #[command(subcommand)]
    Sidecar(Sidecar),
    #[cfg(feature = "sim")]
    #[command(subcommand)]
    Sim(Sim),
    SnapshotController(Box<SnapshotControllerCommand>),
    Status(StatusArgs),
}

/// Turn CSIDriverDeployments into running drivers, and keep them
///
/// Runs inside the cluster from `deploy/operator.yaml`, and outside of it with a kubeconfig. Called as `csi-operator` it
/// takes the command line of the original operator.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage operator --kubeconfig ~/.kube/config --v=4
  stowage operator --leader-election --config-map csi-operator-config
  csi-operator -v 5 -alsologtostderr -kubeconfig=admin.kubeconfig")]
pub struct OperatorArgs {
    /// File with the operator's configuration; changes are noticed [default: none]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// ConfigMap with the operator's configuration in `config.yaml`, in the namespace of the lease; changes are noticed
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub config_map: Option<String>,

    #[command(flatten)]
    pub kube: stowage_service::KubeArgs,

    #[command(flatten)]
    pub lease: stowage_service::LeaseArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,

    #[command(flatten)]
    pub original: OriginalArgs,
}

/// Flags of the original operator that have no meaning here: log lines go to stderr in any case. They are taken so that
/// scripts keep working.
#[derive(Debug, clap::Args)]
pub struct OriginalArgs {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<bool>,
    #[arg(long, hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_backtrace_at", hide = true)]
    log_backtrace_at: Option<String>,
}

/// Run a CSI driver
#[derive(Debug, Subcommand)]
pub enum Driver {
    // Boxed: they have many flags, each its own.
    Hostpath(Box<HostpathArgs>),
    Weka(Box<WekaArgs>),
}

/// The driver for Weka clusters: volumes are directories of Weka filesystems, with quotas
///
/// Needs a Weka client on every node it runs on. Credentials come with the requests, from the secrets that storage classes
/// name. The sidecar elects a leader among controllers; two that work at once come to the same result.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    // WEKA's numbers, which its manifests carry.
    mut_arg("verbosity", |arg| arg.help("What is logged, as a number: up to 3 errors, 4 info, 5 debug, from 6 trace (--log-level wins)")),
    version,
    after_help = "\
Examples:
  stowage driver weka --endpoint unix:///csi/csi.sock --nodeid $(hostname) --mode node
  stowage driver weka --endpoint unix:///csi/csi.sock --nodeid $(hostname) --csimode controller --http-endpoint :9090
  wekafsplugin -csimode=node -endpoint=unix:///csi/csi.sock -nodeid=$(hostname)       under this name, too")]
pub struct WekaArgs {
    #[command(flatten)]
    pub driver: stowage_weka::Args,

    /// Open the HTTP port at --metricsport, unless --http-endpoint says where
    #[arg(long = "enablemetrics", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true", help_heading = "HTTP")]
    pub enable_metrics: bool,

    /// Port for --enablemetrics
    #[arg(
        long = "metricsport",
        value_name = "PORT",
        default_value_t = 9090,
        help_heading = "HTTP"
    )]
    pub metrics_port: u16,

    /// A further HTTP port of a controller, for its liveness probe
    #[arg(long, value_name = "PORT", env = "HEALTH_PORT", help_heading = "HTTP")]
    pub health_port: Option<u16>,

    /// Write log lines as JSON, as --log-format json does
    #[arg(long = "usejsonlogging", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true", help_heading = "Logs")]
    pub use_json_logging: bool,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// The embedded driver: volumes are loop files of one node, with every CSI feature and without an array
///
/// Data is local to its node. Either one process whose node holds the data, or one on every node.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage driver hostpath --endpoint unix:///csi/csi.sock --nodeid $(hostname)
  stowage driver hostpath --endpoint unix:///csi/csi.sock --statedir /var/lib/stowage/hostpath --v=5")]
pub struct HostpathArgs {
    #[command(flatten)]
    pub driver: stowage_hostpath::Args,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// Run the one sidecar of a CSI driver, in place of upstream's six
#[derive(Debug, Subcommand)]
pub enum Sidecar {
    Controller(Box<SidecarControllerArgs>),
    Node(Box<SidecarNodeArgs>),
}

/// Beside a driver's controller: provisions, deletes, attaches and detaches volumes, takes snapshots
///
/// In place of external-provisioner, external-attacher and csi-snapshotter, with their flags, under their roles. Asks the driver what it
/// can do and does what it can. Without --leader-election run one replica only, and none of the Go sidecars beside it.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sidecar controller --csi-address /csi/csi.sock --leader-election
  stowage sidecar controller --csi-address /csi/csi.sock --kubeconfig ~/.kube/config --health-port 0 --v=5
  stowage sidecar controller --csi-address /csi/csi.sock --resolve-intents-and-exit")]
pub struct SidecarControllerArgs {
    #[command(flatten)]
    pub controller: stowage_sidecar::controller::ControllerArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// Beside a driver's node plugin: makes the driver known to the kubelet, and says whether it is alive
///
/// In place of node-driver-registrar and livenessprobe, with their flags. Needs no access to the Kubernetes API.
#[derive(Debug, clap::Args)]
#[command(
    // Pods of a driver often share the host's network: a port is opened where it is asked for.
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sidecar node --csi-address /csi/csi.sock \\
    --kubelet-registration-path /var/lib/kubelet/plugins/csi-hostpath/csi.sock
  stowage sidecar node --csi-address /csi/csi.sock \\
    --kubelet-registration-path /var/lib/kubelet/plugins/csi-hostpath/csi.sock \\
    --driver-name csi-hostpath --health-port 9898 --http-endpoint :8081 --v=5")]
pub struct SidecarNodeArgs {
    #[command(flatten)]
    pub node: stowage_sidecar::node::NodeArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// Simulate a storage array, for tests and for trying things out
#[cfg(feature = "sim")]
#[derive(Debug, Subcommand)]
pub enum Sim {
    Weka(Box<SimWekaArgs>),
    WekaFrontend(Box<SimWekaFrontendArgs>),
    #[command(name = "mount.wekafs")]
    MountWekafs(MountWekafsArgs),
}

/// A Weka cluster: REST API, control API for faults, and the data plane of this host
///
/// A new one has the organization Root, user and password `admin`, and the filesystem `default` of 100 GiB. Stopped and started
/// again on the same directory it forgets nothing.
#[cfg(feature = "sim")]
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim weka --data /var/tmp/weka                                    # 5.1, over HTTPS
  stowage sim weka --data /var/tmp/weka --plain-http
  stowage sim weka --data /var/tmp/weka --tls --listen 127.0.0.1:14000 --listen '[::1]:14000'
  curl -X PUT 127.0.0.1:14100/release -H 'content-type: application/json' -d '{\"release\": \"4.2\"}'

docs/guides/simulators.md says more.")]
pub struct SimWekaArgs {
    #[command(flatten)]
    pub cluster: stowage_sim::weka::Options,

    #[command(flatten)]
    pub frontend: stowage_sim::weka::FrontendArgs,

    /// Serve no files here: frontends run elsewhere
    #[arg(long)]
    pub no_frontend: bool,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// The data plane of a Weka cluster on one node, beside it and outside of any pod
#[cfg(feature = "sim")]
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim weka-frontend --data /var/tmp/weka --container node-a \\
    --proc-modules /run/node-a/modules --proc-interface /run/node-a/interface")]
pub struct SimWekaFrontendArgs {
    #[command(flatten)]
    pub frontend: stowage_sim::weka::FrontendOptions,

    /// Put a copy of this program there, for pods that have it as their /sbin/mount.wekafs
    #[arg(long, value_name = "FILE")]
    pub mount_helper: Option<PathBuf>,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// What `mount -t wekafs` calls; also when this program is called as `mount.wekafs`
#[cfg(feature = "sim")]
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct MountWekafsArgs {
    /// As mount(8) gives them: FILESYSTEM DIRECTORY [-sfnv] [-o OPTION,...]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<std::ffi::OsString>,
}

/// The cluster-wide half of snapshots, for clusters that have none
///
/// Makes a content for each VolumeSnapshot and VolumeGroupSnapshot, which a driver's sidecar then fills, and tells users
/// what became of it. In place of upstream's snapshot-controller, with its flags, its lease and its role. A cluster needs
/// exactly one for all drivers: this one refuses to start beside another.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage crds | kubectl apply -f -
  stowage snapshot-controller --leader-election
  stowage snapshot-controller --kubeconfig ~/.kube/config --v=5")]
pub struct SnapshotControllerCommand {
    #[command(flatten)]
    pub controller: stowage_snapshot_controller::SnapshotControllerArgs,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// Print custom resource definitions as YAML
///
/// Those of snapshots are for clusters that have none: where
/// `kubectl get crd volumesnapshots.snapshot.storage.k8s.io` finds something, snapshots are set up already. The
/// definitions fit every Kubernetes from 1.20 on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage crds | kubectl apply -f -
  stowage crds --group snapshots > snapshot-crds.yaml")]
pub struct CrdsArgs {
    /// Print only this group; may be given several times [default: all groups]
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<CrdsGroup>,
}

/// Names of [`CrdGroup`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CrdsGroup {
    /// CSIDriverDeployment, which the operator turns into a running driver
    DriverDeployments,
    /// VolumeSnapshot, its class and its content
    Snapshots,
    /// VolumeGroupSnapshot, its class and its content
    GroupSnapshots,
    /// VSCStorageClass, VPSA and what else the VPSA driver keeps
    Vpsa,
}

impl From<CrdGroup> for CrdsGroup {
    fn from(group: CrdGroup) -> Self {
        match group {
            CrdGroup::DriverDeployments => Self::DriverDeployments,
            CrdGroup::Snapshots => Self::Snapshots,
            CrdGroup::GroupSnapshots => Self::GroupSnapshots,
            CrdGroup::Vpsa => Self::Vpsa,
        }
    }
}

/// Show the CSI drivers of a cluster and the nodes they run on
///
/// Reads the cluster of the kubeconfig, or the one around it when run in a pod without a kubeconfig.
/// Changes nothing. Needs the right to list nodes, persistentvolumes, csidrivers, csinodes and
/// storageclasses.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stowage status
  stowage status --kubeconfig admin.conf --context prod
  stowage status --output json | jq '.nodes[] | select(.ready != \"yes\")'")]
pub struct StatusArgs {
    #[command(flatten)]
    pub access: Access,

    /// How to print it
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
}

/// Which cluster, and as whom.
#[derive(Debug, Default, clap::Args)]
pub struct Access {
    /// Kubeconfig to use [default: $KUBECONFIG, then ~/.kube/config, then the pod's own account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people; becomes a list where the terminal is too narrow
    Table,
    /// For programs
    Json,
}

#[cfg(test)]
mod tests;
