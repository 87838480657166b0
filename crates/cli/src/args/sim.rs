//! The command lines of simulated arrays.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

/// Simulate a storage array, for tests and for trying things out
#[derive(Debug, Subcommand)]
pub enum Sim {
    FuseDriver(Box<SimFuseDriverArgs>),
    Vpsa(Box<SimVpsaArgs>),
    VpsaHost(Box<SimVpsaHostArgs>),
    NfsHost(Box<SimNfsHostArgs>),
    #[command(name = "mount.nfs")]
    MountNfs(ToolArgs),
    #[command(name = "iscsiadm")]
    Iscsiadm(ToolArgs),
    Weka(Box<SimWekaArgs>),
    WekaFrontend(Box<SimWekaFrontendArgs>),
    WekaClient(Box<SimWekaClientArgs>),
    #[command(name = "mount.wekafs")]
    MountWekafs(MountWekafsArgs),
}

/// A CSI driver whose mounts die with its process, as those of FUSE daemons do
///
/// For trying how drivers of this kind are updated: `nodeUpdateStrategy: Draining`. Needs root and /dev/fuse.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim fuse-driver --endpoint /tmp/csi.sock --nodeid node-a --data /var/tmp/volumes

deploy/sim/fuse.yaml deploys it.")]
pub struct SimFuseDriverArgs {
    #[command(flatten)]
    pub driver: stowage_sim::fuse_driver::Args,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// A Zadara VPSA: REST API, control API for faults, disks over iSCSI, shares
///
/// A new one has one pool of 1000 GB and the access key SIMULATEDACCESSKEY-1. Stopped and started again on the same directory it
/// forgets nothing. Nodes use its disks and shares through `stowage sim vpsa-host`.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim vpsa --data /var/tmp/vpsa                                    # over HTTPS, data on 127.0.0.1
  stowage sim vpsa --data /var/tmp/vpsa --plain-http --no-data
  stowage sim vpsa --data /var/tmp/vpsa-2 --listen 10.0.0.2:443 --control 127.0.0.1:14501 --address 10.0.0.2
  stowage sim vpsa --data /var/tmp/old --release 20.12-sp1 --pool fast=500 --pool slow=2000 --all-flash
  curl -s 127.0.0.1:14500/faults -H 'content-type: application/json' \\
    -d '{\"method\": \"POST\", \"path\": \"volumes\", \"times\": 1, \"trouble\": \"submitted\"}'

docs/guides/simulators.md says more.")]
pub struct SimVpsaArgs {
    #[command(flatten)]
    pub array: stowage_sim::vpsa::Options,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// What the kernel of a node does with exports of arrays over NFS, beside it and outside of any pod
///
/// The stand-in for `mount.nfs` asks it: this program under that name. Needs root and /dev/fuse. A node that uses VPSAs has
/// `vpsa-host`, which does the same and more.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim nfs-host
  stowage sim nfs-host --ip 10.0.0.7 --socket /run/node-a/nfs.sock
  stowage sim nfs-host --tools /run/node-a/sbin                            # put the stand-ins there

docs/guides/simulators.md says more.")]
pub struct SimNfsHostArgs {
    #[command(flatten)]
    pub host: stowage_sim::nfs::host::HostOptions,

    /// Put copies of this program there as mount.nfs and mount.nfs4
    #[arg(long, value_name = "DIR")]
    pub tools: Option<PathBuf>,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// What the kernel of a node does with disks and shares of VPSAs, beside it and outside of any pod
///
/// The stand-ins for `mount.nfs`, `iscsiadm` and `multipath` ask it: this program under those names. Needs root, /dev/fuse and loop devices.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    after_help = "\
Examples:
  stowage sim vpsa-host
  stowage sim vpsa-host --ip 10.0.0.7 --by-path /run/node-a/by-path --socket /run/node-a/vpsa.sock
  stowage sim vpsa-host --tools /run/node-a/sbin                           # put the stand-ins there

docs/guides/simulators.md says more.")]
pub struct SimVpsaHostArgs {
    #[command(flatten)]
    pub host: stowage_sim::vpsa::HostOptions,

    /// Put copies of this program there as mount.nfs, mount.nfs4, iscsiadm, multipath and multipathd, and as a mount that knows them: for those who
    /// have DIR first in their PATH, or its files in their /sbin
    #[arg(long, value_name = "DIR")]
    pub tools: Option<PathBuf>,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// What `mount -t nfs` and drivers call; also when this program is called by this name
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct ToolArgs {
    /// As the tool itself takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// A Weka cluster: REST API, control API for faults, and the data plane of this host
///
/// A new one has the organization Root, user and password `admin`, and the filesystem `default` of 100 GiB. Stopped and started
/// again on the same directory it forgets nothing.
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

/// The Weka client of a node, as the pod of a WekaContainer runs it
///
/// What the operator renders is enough for it to join: JOIN_IPS, NAME and NODE_NAME. It is ready (/readyz) while the cluster
/// counts it as connected; the control API of the cluster makes it unhealthy, slow to stop, or unwilling.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("http_endpoint", |arg| arg.default_value("")),
    mut_arg("container", |arg| arg.env("NAME")),
    mut_arg("hostname", |arg| arg.env("NODE_NAME")),
    after_help = "\
Examples:
  stowage sim weka-client --data /var/tmp/weka --join 127.0.0.1:14000 --container one --http-endpoint :14150
  curl -X PUT 127.0.0.1:14100/frontends/one -H 'content-type: application/json' \\
    -d '{\"connected\": true, \"module\": true, \"stop\": \"when_unmounted\"}'")]
pub struct SimWekaClientArgs {
    #[command(flatten)]
    pub client: stowage_sim::weka::ClientOptions,

    /// Put a copy of this program there, for pods that have it as their /sbin/mount.wekafs
    #[arg(long, value_name = "FILE")]
    pub mount_helper: Option<PathBuf>,

    #[command(flatten)]
    pub service: stowage_service::ServiceArgs,
}

/// What `mount -t wekafs` calls; also when this program is called as `mount.wekafs`
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct MountWekafsArgs {
    /// As mount(8) gives them: FILESYSTEM DIRECTORY [-sfnv] [-o OPTION,...]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}
