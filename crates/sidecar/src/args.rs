//! The command line of the roles: [`RoleArgs`] is what was typed, [`Settings`] what it means.
//!
//! Names and meanings are those of the Go sidecars, so that their manifests keep working. Where several of them
//! have a flag of one name, the flag counts for all roles, and a prefixed one (`--attacher-timeout`) for one role.

use std::time::Duration;

use clap::{ArgAction, builder::BoolishValueParser};
use stowage_service::duration;

use crate::liveness::some_time;

const PROVISIONING: &str = "Provisioning";
const ATTACHING: &str = "Attaching";
const CAPACITY: &str = "Free capacity";
const RESIZING: &str = "Resizing and modifying";
pub(crate) const NODE_DEPLOYMENT: &str = "One controller per node";
/// What the Go sidecars have and this one needs no more: accepted and ignored.
const IGNORED: &str = "ignored";

/// Flags of the controller's roles.
#[derive(clap::Args, Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub struct RoleArgs {
    /// Pause after the first failure of an object; it doubles
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    pub retry_interval_start: Duration,

    /// Longest pause between two attempts
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5m")]
    pub retry_interval_max: Duration,

    /// How many volumes to create, and to delete, at a time [default: 100]; to attach, to detach, and to resize [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub worker_threads: Option<u16>,

    /// Filesystem where a storage class names none; empty leaves it to the driver
    #[arg(long, value_name = "TYPE", default_value = "")]
    pub default_fstype: String,

    /// End when every volume that a killed predecessor left half made is made or deleted: before going back to the
    /// Go sidecars
    #[arg(long)]
    pub resolve_intents_and_exit: bool,

    /// First part of the names of volumes
    #[arg(long, value_name = "PREFIX", default_value = "pvc", help_heading = PROVISIONING)]
    pub volume_name_prefix: String,

    /// How much of the claim's uid goes into the name of its volume; -1 is all of it
    #[arg(long, value_name = "LENGTH", default_value_t = -1, allow_negative_numbers = true, help_heading = PROVISIONING)]
    pub volume_name_uuid_length: i16,

    /// Tell the driver the names of claim and volume
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = PROVISIONING)]
    pub extra_create_metadata: bool,

    /// Have volumes made exactly where the pod is to run, not only preferably
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = PROVISIONING)]
    pub strict_topology: bool,

    /// Tell the driver the topology of the cluster also where no pod waits for the volume
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = PROVISIONING)]
    pub immediate_topology: bool,

    /// Attach volumes read-only whose only access mode is ReadOnlyMany
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = PROVISIONING)]
    pub controller_publish_readonly: bool,

    /// Refuse to restore a snapshot into the other volume mode
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = PROVISIONING)]
    pub prevent_volume_mode_conversion: bool,

    /// Like --timeout, to provision only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = PROVISIONING)]
    pub provisioner_timeout: Option<Duration>,

    /// Like --worker-threads, to provision only
    #[arg(long, value_name = "NUMBER", help_heading = PROVISIONING, value_parser = clap::value_parser!(u16).range(1..))]
    pub provisioner_worker_threads: Option<u16>,

    /// Like --timeout, to attach only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = ATTACHING)]
    pub attacher_timeout: Option<Duration>,

    /// Like --worker-threads, to attach only
    #[arg(long, value_name = "NUMBER", help_heading = ATTACHING, value_parser = clap::value_parser!(u16).range(1..))]
    pub attacher_worker_threads: Option<u16>,

    /// How often to compare attachments with what the driver lists, where it can list them; 0 is never
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1m", help_heading = ATTACHING)]
    pub reconcile_sync: Duration,

    /// Like --timeout, to resize only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = RESIZING)]
    pub resizer_timeout: Option<Duration>,

    /// Like --worker-threads, to resize only
    #[arg(long, value_name = "NUMBER", help_heading = RESIZING, value_parser = clap::value_parser!(u16).range(1..))]
    pub resizer_worker_threads: Option<u16>,

    /// After a driver refused to resize a volume in use, wait until no pod uses it; pods are watched only then
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = RESIZING)]
    pub handle_volume_inuse_error: bool,

    /// Tell the driver the names of claim and volume when a volume is modified
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = RESIZING)]
    pub extra_modify_metadata: bool,

    /// Tell the scheduler how much space there is, in CSIStorageCapacity objects
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = CAPACITY)]
    pub enable_capacity: bool,

    /// Also for classes that bind at once, which the scheduler does not look at
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = CAPACITY)]
    pub capacity_for_immediate_binding: bool,

    /// How often to ask the driver, besides after each volume that comes or goes
    #[arg(long, value_name = "DURATION", value_parser = some_time, default_value = "1m", help_heading = CAPACITY)]
    pub capacity_poll_interval: Duration,

    /// Who owns the objects: 0 this pod, 1 what made it, 2 what made that; -1 nobody
    #[arg(long, value_name = "LEVEL", default_value_t = 1, allow_negative_numbers = true, help_heading = CAPACITY,
        value_parser = clap::value_parser!(i8).range(-1..=5))]
    pub capacity_ownerref_level: i8,

    /// The namespace of the objects, which is this pod's
    #[arg(long, value_name = "NAMESPACE", env = "NAMESPACE", help_heading = CAPACITY)]
    pub capacity_namespace: Option<String>,

    /// The name of this pod
    #[arg(long, value_name = "NAME", env = "POD_NAME", help_heading = CAPACITY)]
    pub pod_name: Option<String>,

    /// The node of this process, with --node-deployment
    #[arg(long, value_name = "NODE", env = "NODE_NAME", help_heading = NODE_DEPLOYMENT)]
    pub node_name: Option<String>,

    /// Also take claims that need no pod first; the first node to claim one provisions it
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = NODE_DEPLOYMENT)]
    pub node_deployment_immediate_binding: bool,

    /// Pause before taking such a claim, so that nodes do not all try at once
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "20s", help_heading = NODE_DEPLOYMENT)]
    pub node_deployment_base_delay: Duration,

    /// Longest such pause
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "60s", help_heading = NODE_DEPLOYMENT)]
    pub node_deployment_max_delay: Duration,

    #[command(flatten)]
    ignored: Ignored,
}

/// Flags that Go manifests carry and that have no meaning here.
#[derive(clap::Args, Clone, Debug)]
struct Ignored {
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    kube_api_qps: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    kube_api_burst: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    kube_api_capacity_qps: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    kube_api_capacity_burst: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    feature_gates: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    resync: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    resync_period: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    max_entries: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    max_grpc_log_length: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    cloning_protection_threads: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    capacity_threads: Option<Option<String>>,
    #[arg(long, hide = true, value_name = IGNORED, num_args = 0..=1, allow_hyphen_values = true)]
    snapshot_orphan_sweep_interval: Option<Option<String>>,
}

/// What the flags mean.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(crate) struct Settings {
    pub(crate) retry_first: Duration,
    pub(crate) retry_longest: Duration,
    pub(crate) default_fs_type: String,
    pub(crate) provision: Provision,
    pub(crate) attach: Attach,
    pub(crate) resize: Resize,
    /// Set with --enable-capacity.
    pub(crate) capacity: Option<Capacity>,
    /// Set with --node-deployment.
    pub(crate) own_node: Option<OwnNode>,
}

/// How volumes are provisioned.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(crate) struct Provision {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) name_prefix: String,
    /// How many characters of the uid, without dashes. `None`: the whole uid as it is.
    pub(crate) name_length: Option<usize>,
    pub(crate) extra_metadata: bool,
    pub(crate) strict_topology: bool,
    pub(crate) immediate_topology: bool,
    pub(crate) publish_read_only: bool,
    pub(crate) keep_volume_mode: bool,
}

/// How volumes are attached.
#[derive(Clone, Debug)]
pub(crate) struct Attach {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    /// `None`: never.
    pub(crate) compare_every: Option<Duration>,
}

/// How volumes are resized.
#[derive(Clone, Debug)]
pub(crate) struct Resize {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    /// After a refusal because of use, wait for the pods to go.
    pub(crate) wait_for_pods: bool,
    /// Tell the driver the names of claim and volume with each modification.
    pub(crate) modify_metadata: bool,
}

/// How free capacity is told.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(crate) every: Duration,
    /// For classes that bind at once, too.
    pub(crate) immediate: bool,
    pub(crate) namespace: String,
    pub(crate) owner: Option<Owner>,
}

/// Who owns the objects of free capacity.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) pod: String,
    /// How many steps up from the pod.
    pub(crate) level: u8,
}

/// A controller on every node.
#[derive(Clone, Debug)]
pub(crate) struct OwnNode {
    pub(crate) name: String,
    /// How long to wait before taking a claim that no pod waits for; `None`: never take one.
    pub(crate) immediate: Option<(Duration, Duration)>,
}

/// Flags that contradict each other or mean nothing.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// The driver on this node cannot know what its node is called.
    #[error(
        "--node-deployment needs the name of the node: set the environment variable NODE_NAME or --node-name"
    )]
    NodeName,
    /// The uid of a claim has 32 characters.
    #[error("--volume-name-uuid-length is {0}: it must be -1, or 1 to 32")]
    NameLength(i16),
    /// Volumes would have names that begin with a dash.
    #[error("--volume-name-prefix must not be empty")]
    NamePrefix,
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
    /// Work that fails would be tried without a pause.
    #[error("--retry-interval-start must be more than 0 and at most --retry-interval-max")]
    Retry,
}

impl RoleArgs {
    /// Checks what was typed. `common` is the timeout of all roles; with `per_node` there is a controller per node.
    pub(crate) fn settings(
        &self,
        common: Option<Duration>,
        per_node: bool,
    ) -> Result<Settings, ArgsError> {
        if self.volume_name_prefix.is_empty() {
            return Err(ArgsError::NamePrefix);
        }
        if self.retry_interval_start.is_zero()
            || self.retry_interval_start > self.retry_interval_max
        {
            return Err(ArgsError::Retry);
        }
        let name_length = match self.volume_name_uuid_length {
            -1 => None,
            length @ 1..=32 => Some(length.unsigned_abs().into()),
            other => return Err(ArgsError::NameLength(other)),
        };
        Ok(Settings {
            retry_first: self.retry_interval_start,
            retry_longest: self.retry_interval_max,
            default_fs_type: self.default_fstype.clone(),
            provision: Provision {
                workers: workers(self.provisioner_worker_threads, self.worker_threads, 100),
                timeout: timeout(self.provisioner_timeout, common, 10),
                name_prefix: self.volume_name_prefix.clone(),
                name_length,
                extra_metadata: self.extra_create_metadata,
                strict_topology: self.strict_topology,
                immediate_topology: self.immediate_topology,
                publish_read_only: self.controller_publish_readonly,
                keep_volume_mode: self.prevent_volume_mode_conversion,
            },
            attach: Attach {
                workers: workers(self.attacher_worker_threads, self.worker_threads, 10),
                timeout: timeout(self.attacher_timeout, common, 15),
                compare_every: (!self.reconcile_sync.is_zero()).then_some(self.reconcile_sync),
            },
            resize: Resize {
                workers: workers(self.resizer_worker_threads, self.worker_threads, 10),
                timeout: timeout(self.resizer_timeout, common, 10),
                wait_for_pods: self.handle_volume_inuse_error,
                modify_metadata: self.extra_modify_metadata,
            },
            capacity: self.capacity()?,
            own_node: self.own_node(per_node)?,
        })
    }

    fn capacity(&self) -> Result<Option<Capacity>, ArgsError> {
        if !self.enable_capacity {
            return Ok(None);
        }
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let namespace = some(&self.capacity_namespace).ok_or(ArgsError::CapacityNamespace)?;
        let owner = match u8::try_from(self.capacity_ownerref_level) {
            Err(_) => None,
            Ok(level) => Some(Owner {
                pod: some(&self.pod_name).ok_or(ArgsError::CapacityPod)?,
                level,
            }),
        };
        Ok(Some(Capacity {
            every: self.capacity_poll_interval,
            immediate: self.capacity_for_immediate_binding,
            namespace,
            owner,
        }))
    }

    fn own_node(&self, per_node: bool) -> Result<Option<OwnNode>, ArgsError> {
        if !per_node {
            return Ok(None);
        }
        let name = self.node_name.clone().filter(|name| !name.is_empty());
        let delays = (
            self.node_deployment_base_delay,
            self.node_deployment_max_delay,
        );
        Ok(Some(OwnNode {
            name: name.ok_or(ArgsError::NodeName)?,
            immediate: self.node_deployment_immediate_binding.then_some(delays),
        }))
    }
}

fn workers(own: Option<u16>, common: Option<u16>, default: u16) -> usize {
    own.or(common).unwrap_or(default).into()
}

fn timeout(own: Option<Duration>, common: Option<Duration>, default: u64) -> Duration {
    own.or(common).unwrap_or(Duration::from_secs(default))
}
