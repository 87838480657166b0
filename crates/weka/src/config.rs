//! What the flags mean, checked once.

use std::path::PathBuf;
use std::time::Duration;

use stowage_csi::flags::{self, Mode, Serving, absolute, at_least_one, seconds};

use crate::args::Args;
use crate::args::client_files::ClientFiles;
use crate::args::foreign::Refusal;
use crate::dynamic_paths::{DynamicPaths, PathOutside};
use crate::nfs::UnknownVersion;
use crate::options::Vocabulary;

pub(crate) use figures::FigureRules;
pub(crate) use nfs::NfsRules;
pub(crate) use volumes::VolumeRules;

mod figures;
mod nfs;
mod volumes;

/// Why the flags cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// A flag that every driver has.
    #[error(transparent)]
    Driver(#[from] flags::FlagError),
    /// A flag for what this driver does not do.
    #[error(transparent)]
    Foreign(#[from] Refusal),
    /// Not flags at all.
    #[error("{0}")]
    Syntax(String),
    /// Not the name of a node.
    #[error("--nodeid is empty: give the node's name in Kubernetes")]
    NodeId,
    /// A path that would leave the filesystem.
    #[error("--{flag} `{text}`: give a path below the filesystem's root, without `..`")]
    DynamicPath {
        /// Which.
        flag: &'static str,
        /// What was given.
        text: String,
    },
    /// Static volumes alone.
    #[error("--setquotaonstaticvolumes needs --backfillmissingquotas: give both, or none of them")]
    StaticQuotas,
    /// Not a version of NFS.
    #[error("--nfsprotocolversion: {0}")]
    NfsVersion(#[from] UnknownVersion),
    /// Names that the array does not take.
    #[error(
        "--{flag} `{text}`: give at most {longest} of the characters A-Z, a-z, 0-9, `-`, `_` and `.`"
    )]
    Prefix {
        /// Which.
        flag: &'static str,
        /// What was given.
        text: String,
        /// How many characters it may have.
        longest: usize,
    },
}

/// The flags, checked.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) serving: Serving,
    pub(crate) node: String,
    pub(crate) dynamic_paths: DynamicPaths,
    pub(crate) insecure_https: bool,
    /// Every request goes to another endpoint.
    pub(crate) rotate_endpoints: bool,
    pub(crate) call_time: Duration,
    pub(crate) api_time: Duration,
    pub(crate) client_time: Duration,
    pub(crate) release_refresh: Duration,
    pub(crate) concurrency: Concurrency,
    pub(crate) volumes: VolumeRules,
    pub(crate) nfs: NfsRules,
    pub(crate) figures: FigureRules,
    pub(crate) container: Option<String>,
    pub(crate) keep_trash: bool,
    pub(crate) labels: bool,
    pub(crate) label_patience: Duration,
    /// How often the client is looked at for them, at least.
    pub(crate) label_look: Duration,
    pub(crate) overrides: bool,
    /// Mounts are labelled for SELinux.
    pub(crate) labels_mounts: bool,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) legacy_secret_name: Option<String>,
    pub(crate) legacy_directory: PathBuf,
    pub(crate) mount_base: PathBuf,
    pub(crate) client_files: ClientFiles,
    pub(crate) proc_filesystems: PathBuf,
}

/// How many calls of a kind are worked on at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concurrency {
    pub(crate) creates: usize,
    pub(crate) deletes: usize,
    pub(crate) expansions: usize,
    pub(crate) publications: usize,
    pub(crate) snapshots: usize,
    pub(crate) snapshot_deletions: usize,
    /// None: as many as there are. A pod that goes away should wait for nobody.
    pub(crate) unpublications: Option<usize>,
}

impl TryFrom<Args> for Config {
    type Error = FlagError;

    fn try_from(args: Args) -> Result<Self, FlagError> {
        args.foreign.check()?;
        let concurrency = concurrency(&args)?;
        let nfs = NfsRules::try_from(args.nfs)?;
        let mut known_options = args.allowed_mount_options;
        if nfs.is_possible() {
            known_options.extend(crate::nfs::KNOWN.map(str::to_owned));
        }
        let serving = Serving::try_from(args.driver)?;
        if args.node_id.is_empty() {
            return Err(FlagError::NodeId);
        }
        let base = args
            .mount_base
            .unwrap_or_else(|| default_base(serving.mode));
        Ok(Self {
            serving,
            node: args.node_id,
            dynamic_paths: dynamic_paths(&args.dynamic_path, &args.earlier_dynamic_paths)?,
            insecure_https: args.allow_insecure_https,
            rotate_endpoints: args.rotate_endpoints,
            call_time: seconds(
                "grpcrequesttimeoutseconds",
                args.grpc_request_timeout_seconds,
            )?,
            api_time: seconds("wekaapitimeoutseconds", args.weka_api_timeout_seconds)?,
            client_time: seconds(
                "healthprobewekatimeoutseconds",
                args.health_probe_timeout_seconds,
            )?,
            release_refresh: seconds("release-refresh-seconds", args.release_refresh_seconds)?,
            concurrency,
            volumes: args.volumes.try_into()?,
            nfs,
            figures: args.figures.try_into()?,
            container: args.container_name.filter(|name| !name.is_empty()),
            keep_trash: args.skip_garbage_collection,
            labels: args.manage_node_topology_labels,
            label_patience: seconds(
                "node-label-patience-seconds",
                args.node_label_patience_seconds,
            )?,
            label_look: Duration::from_millis(args.node_label_look_milliseconds.max(1)),
            overrides: args.allow_mount_option_overrides,
            labels_mounts: args.selinux_support,
            vocabulary: Vocabulary::new(&args.mutually_exclusive_mount_options, &known_options),
            legacy_secret_name: args
                .legacy_volume_secret_name
                .filter(|name| !name.is_empty()),
            legacy_directory: args.legacy_volume_access,
            mount_base: absolute("mount-base", base)?,
            client_files: args.client_files,
            proc_filesystems: args.proc_filesystems,
        })
    }
}

fn concurrency(args: &Args) -> Result<Concurrency, FlagError> {
    let unpublications = args.concurrent_unpublications;
    let unpublications =
        unpublications.map(|limit| at_least_one("concurrency.nodeUnpublishVolume", limit));
    Ok(Concurrency {
        creates: at_least_one("concurrency.createVolume", args.concurrent_creates)?,
        deletes: at_least_one("concurrency.deleteVolume", args.concurrent_deletes)?,
        expansions: at_least_one("concurrency.expandVolume", args.concurrent_expansions)?,
        publications: at_least_one(
            "concurrency.nodePublishVolume",
            args.concurrent_publications,
        )?,
        snapshots: at_least_one("concurrency.createSnapshot", args.concurrent_snapshots)?,
        snapshot_deletions: at_least_one(
            "concurrency.deleteSnapshot",
            args.concurrent_snapshot_deletions,
        )?,
        unpublications: unpublications.transpose()?,
    })
}

/// One directory per mode: a controller and a node plugin on one machine must not unmount what the other uses.
fn default_base(mode: Mode) -> PathBuf {
    PathBuf::from(match mode {
        Mode::Controller => "/run/weka-fs-mounts-controller",
        Mode::Node => "/run/weka-fs-mounts-node",
        Mode::All => "/run/weka-fs-mounts",
    })
}

fn dynamic_paths(current: &str, earlier: &[String]) -> Result<DynamicPaths, FlagError> {
    let outside = |flag| move |PathOutside(text)| FlagError::DynamicPath { flag, text };
    let paths = DynamicPaths::new(current).map_err(outside("dynamic-path"))?;
    let mut earlier = earlier.iter();
    earlier
        .try_fold(paths, |paths, path| paths.or_earlier(path))
        .map_err(outside("earlier-dynamic-path"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn config(words: &[&str]) -> Result<Config, FlagError> {
        let words = ["weka", "--endpoint=unix:///csi/csi.sock", "--nodeid=node-1"]
            .iter()
            .chain(words);
        Command::try_parse_from(words).unwrap().args.try_into()
    }

    #[test]
    fn endpoint_and_node_are_enough() {
        let config = config(&[]).unwrap();
        assert_eq!(config.serving.driver_name, "csi.weka.io");
        assert_eq!(config.dynamic_paths.current(), "csi-volumes");
        assert_eq!(config.mount_base, PathBuf::from("/run/weka-fs-mounts"));
        assert_eq!(config.call_time, Duration::from_secs(30));
        assert!(Command::try_parse_from(["weka", "--endpoint=/x"]).is_err());
    }

    #[test]
    fn flags_are_written_as_in_manifests_for_weka() {
        let config = config(&[
            "--csimode=node",
            "--drivername=csi.group.weka.io",
            "--dynamic-path=/volumes/",
            "--allowinsecurehttps",
            "--managenodetopologylabels=true",
            "--skipgarbagecollection=false",
            "--concurrency.createVolume=5",
            "--concurrency.nodeUnpublishVolume=5",
            "--concurrency.createSnapshot=5",
            "--allowautofscreation=true",
            "--allowsnapshotsoflegacyvolumes",
            "--keepthinprovisioningratioonexpand=false",
            "--newvolumeprefix=vol-",
            "--mutuallyexclusivemountoptions=a,b",
            "--mutuallyexclusivemountoptions=c,d",
            "--allowprotocolcontainers",
            "--selinux-support",
            "--grpcrequesttimeoutseconds=60",
        ])
        .unwrap();
        assert_eq!(config.serving.mode, Mode::Node);
        assert_eq!(config.mount_base, PathBuf::from("/run/weka-fs-mounts-node"));
        assert_eq!(config.dynamic_paths.current(), "volumes");
        assert!(config.insecure_https && config.labels && !config.keep_trash);
        assert!(config.labels_mounts);
        assert_eq!(config.concurrency.creates, 5);
        assert_eq!(config.concurrency.unpublications, Some(5));
        let volumes = config.volumes;
        assert!(volumes.create_filesystems && volumes.snapshots_of_directories);
        assert!(!volumes.keep_thin_ratio && !volumes.enlarge_filesystems);
        assert_eq!(volumes.volume_prefix, "vol-");
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for words in [
            ["--drivername=a_b"],
            ["--dynamic-path=a/../b"],
            ["--earlier-dynamic-path=../b"],
            ["--mount-base=here"],
            ["--grpcrequesttimeoutseconds=0"],
            ["--concurrency.createVolume=0"],
            ["--concurrency.nodeUnpublishVolume=0"],
            ["--newvolumeprefix=too-long-"],
            ["--newsnapshotprefix=a/b"],
            ["--nfsprotocolversion=5"],
            ["--setquotaonstaticvolumes"],
            ["--wekametricsfetchintervalseconds=0"],
        ] {
            let flag = words[0].split('=').next().unwrap();
            let error = config(&words).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
