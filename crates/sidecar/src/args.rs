//! The command line of the roles: [`RoleArgs`] is what was typed, [`Settings`] what it means.
//!
//! Names and meanings are those of the Go sidecars, so that their manifests keep working. Where several of them
//! have a flag of one name, the flag counts for all roles, and a prefixed one (`--attacher-timeout`) for one role.
//! Each role has a file of its own, with its flags and what they mean.

mod attach;
mod capacity;
mod intents;
mod naming;
mod own_node;
mod provision;
mod resize;
mod retry;
mod server;
mod snapshots;
#[cfg(test)]
mod tests;
mod without_effect;

use std::time::Duration;

use stowage_kubernetes::queue::Backoff;
use stowage_service::duration;
use stowage_service::go_flags::WithoutEffect;

pub(crate) use self::attach::Attach;
use self::attach::AttachArgs;
use self::capacity::CapacityArgs;
pub(crate) use self::capacity::{Capacity, Owner};
use self::intents::IntentArgs;
pub(crate) use self::intents::{Errand, Intents};
pub(crate) use self::naming::Naming;
use self::own_node::OwnNodeArgs;
pub(crate) use self::own_node::{HEADING as NODE_DEPLOYMENT, OwnNode};
pub(crate) use self::provision::Provision;
use self::provision::ProvisionArgs;
pub(crate) use self::resize::Resize;
use self::resize::ResizeArgs;
use self::retry::Retry;
pub use self::server::ServerArgs;
use self::snapshots::SnapshotArgs;
pub(crate) use self::snapshots::Snapshots;
use self::without_effect::Upstream;

/// Flags of the controller's roles.
#[derive(clap::Args, Clone, Debug)]
pub struct RoleArgs {
    /// Pause after the first failure of an object; it doubles
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    pub retry_interval_start: Duration,

    /// Longest pause between two attempts
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5m")]
    pub retry_interval_max: Duration,

    /// How many volumes to create, and to delete, at a time [default: 100]; to attach, to detach, to resize, and to
    /// take snapshots [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub worker_threads: Option<u16>,

    /// Filesystem type for storage classes that do not set one; if empty, the driver decides
    #[arg(long, value_name = "TYPE", default_value = "")]
    pub default_fstype: String,

    /// Volumes that were left half made.
    #[command(flatten)]
    pub intents: IntentArgs,

    /// Provisioning.
    #[command(flatten)]
    pub provision: ProvisionArgs,

    /// Attaching.
    #[command(flatten)]
    pub attach: AttachArgs,

    /// Resizing.
    #[command(flatten)]
    pub resize: ResizeArgs,

    /// Free capacity.
    #[command(flatten)]
    pub capacity: CapacityArgs,

    /// Snapshots.
    #[command(flatten)]
    pub snapshots: SnapshotArgs,

    /// A controller on every node.
    #[command(flatten)]
    pub own_node: OwnNodeArgs,

    /// Flags that Go manifests carry and that have no meaning here.
    #[command(flatten)]
    pub upstream: WithoutEffect<Upstream>,
}

/// What the flags mean.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(crate) struct Settings {
    pub(crate) default_fs_type: String,
    pub(crate) intents: Intents,
    pub(crate) provision: Provision,
    pub(crate) attach: Attach,
    pub(crate) resize: Resize,
    /// Set with --enable-capacity.
    pub(crate) capacity: Option<Capacity>,
    pub(crate) snapshots: Snapshots,
    /// Set with --node-deployment.
    pub(crate) own_node: Option<OwnNode>,
}

/// Flags that contradict each other or mean nothing.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// The driver on this node cannot know what its node is called.
    #[error(
        "--node-deployment needs the name of the node: set the environment variable NODE_NAME or --node-name"
    )]
    NodeName,
    /// A uid has 32 characters.
    #[error("--{0} is {1}: it must be -1, or 1 to 32")]
    NameLength(&'static str, i16),
    /// Names would begin with a dash.
    #[error("--{0} must not be empty")]
    NamePrefix(&'static str),
    /// Capacity objects need a place.
    #[error(
        "--enable-capacity needs the namespace of this pod: set the environment variable NAMESPACE or --capacity-namespace"
    )]
    CapacityNamespace,
    /// Capacity objects need an owner.
    #[error(
        "--enable-capacity needs the name of this pod, which owns the objects: set the environment variable POD_NAME or --pod-name, or --capacity-ownerref-level=-1"
    )]
    CapacityPod,
    /// Neither on nor off.
    #[error("--feature-gates: `{0}` is neither `true` nor `false`")]
    FeatureGate(String),
    /// Work that fails would be tried without a pause.
    #[error("--{0}retry-interval-start must be more than 0 and at most --{0}retry-interval-max")]
    Retry(&'static str),
}

/// Flags that count for all roles which have none of their own.
#[derive(Clone, Copy)]
struct Common {
    workers: Option<u16>,
    timeout: Option<Duration>,
    retry: Backoff,
}

impl Common {
    fn workers(self, own: Option<u16>, default: u16) -> usize {
        own.or(self.workers).unwrap_or(default).into()
    }

    fn timeout(self, own: Option<Duration>, default: u64) -> Duration {
        own.or(self.timeout).unwrap_or(Duration::from_secs(default))
    }
}

impl RoleArgs {
    /// Checks what was typed. `timeout` is that of all roles; with `per_node` there is a controller per node.
    pub(crate) fn settings(
        &self,
        timeout: Option<Duration>,
        per_node: bool,
    ) -> Result<Settings, ArgsError> {
        let retry = Backoff {
            first: self.retry_interval_start,
            longest: self.retry_interval_max,
        };
        let common = Common {
            workers: self.worker_threads,
            timeout,
            retry: retry::checked("", retry)?,
        };
        let own_node = per_node.then(|| self.own_node.settings());
        Ok(Settings {
            default_fs_type: self.default_fstype.clone(),
            intents: self.intents.settings(),
            provision: self.provision.settings(common)?,
            attach: self.attach.settings(common)?,
            resize: self.resize.settings(common)?,
            capacity: self.capacity.settings()?,
            snapshots: self.snapshots.settings(common)?,
            own_node: own_node.transpose()?,
        })
    }
}
