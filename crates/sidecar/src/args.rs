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
const SNAPSHOTS: &str = "Snapshots";
pub(crate) const NODE_DEPLOYMENT: &str = "One controller per node";

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

    /// How many volumes to create, and to delete, at a time [default: 100]; to attach, to detach, to resize, and to
    /// take snapshots [default: 10]
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

    /// Tell the driver the names of claim and volume, of snapshot and content
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
    #[arg(long, alias = "workers", value_name = "NUMBER", help_heading = RESIZING, value_parser = clap::value_parser!(u16).range(1..))]
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

    /// First part of the names of snapshots
    #[arg(long, value_name = "PREFIX", default_value = "snapshot", help_heading = SNAPSHOTS)]
    pub snapshot_name_prefix: String,

    /// How much of the VolumeSnapshot's uid goes into the name of its snapshot; -1 is all of it
    #[arg(long, value_name = "LENGTH", default_value_t = -1, allow_negative_numbers = true, help_heading = SNAPSHOTS)]
    pub snapshot_name_uuid_length: i16,

    /// First part of the names of group snapshots
    #[arg(long, value_name = "PREFIX", default_value = "groupsnapshot", help_heading = SNAPSHOTS)]
    pub groupsnapshot_name_prefix: String,

    /// How much of the VolumeGroupSnapshot's uid goes into the name of its group snapshot; -1 is all of it
    #[arg(long, value_name = "LENGTH", default_value_t = -1, allow_negative_numbers = true, help_heading = SNAPSHOTS)]
    pub groupsnapshot_name_uuid_length: i16,

    /// Like --timeout, for snapshots only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = SNAPSHOTS)]
    pub snapshotter_timeout: Option<Duration>,

    /// Like --worker-threads, for snapshots only
    #[arg(long, value_name = "NUMBER", help_heading = SNAPSHOTS, value_parser = clap::value_parser!(u16).range(1..))]
    pub snapshotter_worker_threads: Option<u16>,

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

    /// Flags that Go manifests carry and that have no meaning here.
    #[arg(long = "kube-api-qps", aliases = ["kube-api-burst", "kube-api-capacity-qps", "kube-api-capacity-burst", "feature-gates", "resync", "resync-period", "max-entries", "max-grpc-log-length", "cloning-protection-threads", "capacity-threads", "snapshot-orphan-sweep-interval"],
        hide = true, value_name = "ignored", num_args = 0..=1, default_missing_value = "", allow_hyphen_values = true)]
    ignored: Vec<String>,
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
    pub(crate) snapshots: Snapshots,
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
    pub(crate) naming: Naming,
    pub(crate) extra_metadata: bool,
    pub(crate) strict_topology: bool,
    pub(crate) immediate_topology: bool,
    pub(crate) publish_read_only: bool,
    pub(crate) keep_volume_mode: bool,
}

/// How snapshots are taken.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) naming: Naming,
    pub(crate) group_naming: Naming,
}

/// How the names that a driver is given follow from the uids of objects.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    prefix: String,
    /// How many characters of the uid, without dashes. `None`: the whole uid as it is.
    length: Option<usize>,
}

impl Naming {
    fn new(flags: [&'static str; 2], prefix: &str, length: i16) -> Result<Self, ArgsError> {
        let [prefix_flag, length_flag] = flags;
        if prefix.is_empty() {
            return Err(ArgsError::NamePrefix(prefix_flag));
        }
        let length = match length {
            -1 => None,
            length @ 1..=32 => Some(length.unsigned_abs().into()),
            other => return Err(ArgsError::NameLength(length_flag, other)),
        };
        let prefix = prefix.to_owned();
        Ok(Self { prefix, length })
    }

    /// It follows from the uid alone, so that everybody finds the same one.
    pub(crate) fn name(&self, uid: &str) -> String {
        let prefix = &self.prefix;
        match self.length {
            None => format!("{prefix}-{uid}"),
            Some(length) => {
                let digits: String = uid.chars().filter(|c| *c != '-').take(length).collect();
                format!("{prefix}-{digits}")
            }
        }
    }
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
        if self.retry_interval_start.is_zero()
            || self.retry_interval_start > self.retry_interval_max
        {
            return Err(ArgsError::Retry);
        }
        Ok(Settings {
            retry_first: self.retry_interval_start,
            retry_longest: self.retry_interval_max,
            default_fs_type: self.default_fstype.clone(),
            provision: Provision {
                workers: workers(self.provisioner_worker_threads, self.worker_threads, 100),
                timeout: timeout(self.provisioner_timeout, common, 10),
                naming: Naming::new(
                    ["volume-name-prefix", "volume-name-uuid-length"],
                    &self.volume_name_prefix,
                    self.volume_name_uuid_length,
                )?,
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
            snapshots: self.snapshots(common)?,
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

    fn snapshots(&self, common: Option<Duration>) -> Result<Snapshots, ArgsError> {
        Ok(Snapshots {
            workers: workers(self.snapshotter_worker_threads, self.worker_threads, 10),
            timeout: timeout(self.snapshotter_timeout, common, 60),
            naming: Naming::new(
                ["snapshot-name-prefix", "snapshot-name-uuid-length"],
                &self.snapshot_name_prefix,
                self.snapshot_name_uuid_length,
            )?,
            group_naming: Naming::new(
                [
                    "groupsnapshot-name-prefix",
                    "groupsnapshot-name-uuid-length",
                ],
                &self.groupsnapshot_name_prefix,
                self.groupsnapshot_name_uuid_length,
            )?,
        })
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: RoleArgs,
    }

    fn parse(words: &[&str]) -> RoleArgs {
        let words = ["sidecar"].iter().chain(words);
        Command::try_parse_from(words).unwrap().args
    }

    fn refused(words: &[&str], per_node: bool) -> String {
        let settings = parse(words).settings(None, per_node);
        settings.unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_upstreams() {
        let settings = parse(&[]).settings(None, false).unwrap();
        assert_eq!(settings.retry_first, Duration::from_secs(1));
        assert_eq!(settings.retry_longest, Duration::from_secs(300));
        let provision = &settings.provision;
        assert_eq!((provision.workers, provision.timeout.as_secs()), (100, 10));
        assert_eq!(provision.naming.name("0-1"), "pvc-0-1");
        assert!(provision.immediate_topology && provision.keep_volume_mode);
        assert!(!provision.strict_topology && !provision.extra_metadata);
        assert!(!provision.publish_read_only);
        let attach = &settings.attach;
        assert_eq!((attach.workers, attach.timeout.as_secs()), (10, 15));
        assert!(settings.own_node.is_none());
    }

    #[test]
    fn a_flag_of_all_roles_counts_for_each_that_has_none_of_its_own() {
        let words = [
            "--worker-threads=7",
            "--attacher-worker-threads=3",
            "--provisioner-timeout=4s",
        ];
        let settings = parse(&words).settings(Some(Duration::from_secs(60)), false);
        let settings = settings.unwrap();
        assert_eq!(
            (settings.provision.workers, settings.attach.workers),
            (7, 3)
        );
        assert_eq!(settings.provision.timeout.as_secs(), 4);
        assert_eq!(settings.attach.timeout.as_secs(), 60);
    }

    #[test]
    fn flags_of_go_manifests_are_taken_and_mean_nothing() {
        let words = [
            "--kube-api-qps=100",
            "--kube-api-burst",
            "200",
            "--feature-gates=Topology=true",
            "--resync=10m",
            "--capacity-threads",
            "--extra-create-metadata",
            "--strict-topology=true",
        ];
        let settings = parse(&words).settings(None, false).unwrap();
        assert!(settings.provision.strict_topology);
    }

    #[test]
    fn what_means_nothing_is_refused_with_the_flag() {
        for (words, flag) in [
            (&["--volume-name-prefix="][..], "--volume-name-prefix"),
            (
                &["--volume-name-uuid-length=0"],
                "--volume-name-uuid-length is 0",
            ),
            (
                &["--volume-name-uuid-length=33"],
                "--volume-name-uuid-length is 33",
            ),
            (&["--retry-interval-start=0s"], "--retry-interval-start"),
            (
                &["--retry-interval-start=2s", "--retry-interval-max=1s"],
                "--retry-interval-max",
            ),
        ] {
            let said = refused(words, false);
            assert!(said.contains(flag), "{said}");
        }
        assert!(refused(&["--node-name="], true).contains("NODE_NAME"));
    }

    #[test]
    fn a_controller_per_node_knows_its_node() {
        let words = ["--node-name=n", "--node-deployment-immediate-binding=false"];
        let own = parse(&words)
            .settings(None, true)
            .unwrap()
            .own_node
            .unwrap();
        assert_eq!((own.name.as_str(), own.immediate), ("n", None));
        let own = parse(&["--node-name=n"])
            .settings(None, true)
            .unwrap()
            .own_node
            .unwrap();
        let delays = (Duration::from_secs(20), Duration::from_secs(60));
        assert_eq!(own.immediate, Some(delays));
    }
}
