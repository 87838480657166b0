//! What the flags mean, checked once.

use std::path::PathBuf;
use std::time::Duration;

use stowage_csi::endpoint::{Endpoint, EndpointError};
use stowage_csi::name::{DriverName, InvalidName};

use crate::args::{Args, WekaMode};
use crate::options::Vocabulary;

/// Why the flags cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// Not the name of a driver.
    #[error("--drivername: {0}")]
    DriverName(#[from] InvalidName),
    /// Not a socket.
    #[error("--endpoint")]
    Endpoint(#[from] EndpointError),
    /// Not the name of a node.
    #[error("--nodeid is empty: give the node's name in Kubernetes")]
    NodeId,
    /// A path that would leave the filesystem.
    #[error("--dynamic-path `{0}`: give a path below the filesystem's root, without `..`")]
    DynamicPath(String),
    /// A path that means something else after the next `chdir`.
    #[error("--mount-base `{}`: give an absolute path", .0.display())]
    MountBase(PathBuf),
    /// Nothing could ever be done.
    #[error("--{0} is 0: give a number above it")]
    Zero(&'static str),
}

/// The flags, checked.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) driver_name: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) node: String,
    pub(crate) mode: WekaMode,
    pub(crate) max_volumes: u32,
    /// Without slashes at its ends.
    pub(crate) dynamic_path: String,
    pub(crate) insecure_https: bool,
    pub(crate) call_time: Duration,
    pub(crate) api_time: Duration,
    pub(crate) release_refresh: Duration,
    pub(crate) concurrency: Concurrency,
    pub(crate) container: Option<String>,
    pub(crate) keep_trash: bool,
    pub(crate) labels: bool,
    pub(crate) overrides: bool,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) legacy_secret_name: Option<String>,
    pub(crate) legacy_directory: PathBuf,
    pub(crate) mount_base: PathBuf,
    pub(crate) proc_modules: PathBuf,
    pub(crate) proc_interface: PathBuf,
}

/// How many calls of a kind are worked on at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concurrency {
    pub(crate) creates: usize,
    pub(crate) deletes: usize,
    pub(crate) expansions: usize,
    pub(crate) publications: usize,
}

impl TryFrom<Args> for Config {
    type Error = FlagError;

    fn try_from(args: Args) -> Result<Self, FlagError> {
        args.driver_name.parse::<DriverName>()?;
        if args.node_id.is_empty() {
            return Err(FlagError::NodeId);
        }
        for flag in args.without_effect.given() {
            tracing::warn!(flag, "This flag has no effect.");
        }
        let non_zero = |number: usize, flag| {
            if number == 0 {
                Err(FlagError::Zero(flag))
            } else {
                Ok(number)
            }
        };
        let seconds = |number: u64, flag| {
            if number == 0 {
                Err(FlagError::Zero(flag))
            } else {
                Ok(Duration::from_secs(number))
            }
        };
        let base = args.mount_base.unwrap_or_else(|| default_base(args.mode));
        if !base.is_absolute() {
            return Err(FlagError::MountBase(base));
        }
        Ok(Self {
            endpoint: args.endpoint.parse()?,
            driver_name: args.driver_name,
            node: args.node_id,
            mode: args.mode,
            max_volumes: args.max_volumes_per_node,
            dynamic_path: dynamic_path(&args.dynamic_path)?,
            insecure_https: args.allow_insecure_https,
            call_time: seconds(
                args.grpc_request_timeout_seconds,
                "grpcrequesttimeoutseconds",
            )?,
            api_time: seconds(args.weka_api_timeout_seconds, "wekaapitimeoutseconds")?,
            release_refresh: seconds(args.release_refresh_seconds, "release-refresh-seconds")?,
            concurrency: Concurrency {
                creates: non_zero(args.concurrent_creates, "concurrency.createVolume")?,
                deletes: non_zero(args.concurrent_deletes, "concurrency.deleteVolume")?,
                expansions: non_zero(args.concurrent_expansions, "concurrency.expandVolume")?,
                publications: non_zero(
                    args.concurrent_publications,
                    "concurrency.nodePublishVolume",
                )?,
            },
            container: args.container_name.filter(|name| !name.is_empty()),
            keep_trash: args.skip_garbage_collection,
            labels: args.manage_node_topology_labels,
            overrides: args.allow_mount_option_overrides,
            vocabulary: Vocabulary::new(
                &args.mutually_exclusive_mount_options,
                &args.allowed_mount_options,
            ),
            legacy_secret_name: args
                .legacy_volume_secret_name
                .filter(|name| !name.is_empty()),
            legacy_directory: args.legacy_volume_access,
            mount_base: base,
            proc_modules: args.proc_modules,
            proc_interface: args.proc_wekafs_interface,
        })
    }
}

/// One directory per mode: a controller and a node plugin on one machine must not unmount what the other uses.
fn default_base(mode: WekaMode) -> PathBuf {
    PathBuf::from(match mode {
        WekaMode::Controller => "/run/weka-fs-mounts-controller",
        WekaMode::Node => "/run/weka-fs-mounts-node",
        WekaMode::All => "/run/weka-fs-mounts",
    })
}

fn dynamic_path(text: &str) -> Result<String, FlagError> {
    let path = text.trim_matches('/');
    let plain = path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if plain && !path.contains(['\0', ':']) {
        Ok(path.to_owned())
    } else {
        Err(FlagError::DynamicPath(text.to_owned()))
    }
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
        assert_eq!(config.driver_name, "csi.weka.io");
        assert_eq!(config.dynamic_path, "csi-volumes");
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
            "--mutuallyexclusivemountoptions=a,b",
            "--mutuallyexclusivemountoptions=c,d",
            "--allowprotocolcontainers",
            "--grpcrequesttimeoutseconds=60",
        ])
        .unwrap();
        assert_eq!(config.mode, WekaMode::Node);
        assert_eq!(config.mount_base, PathBuf::from("/run/weka-fs-mounts-node"));
        assert_eq!(config.dynamic_path, "volumes");
        assert!(config.insecure_https && config.labels && !config.keep_trash);
        assert_eq!(config.concurrency.creates, 5);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for words in [
            ["--drivername=a_b"],
            ["--dynamic-path=a/../b"],
            ["--mount-base=here"],
            ["--grpcrequesttimeoutseconds=0"],
            ["--concurrency.createVolume=0"],
        ] {
            let flag = words[0].split('=').next().unwrap();
            let error = config(&words).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
