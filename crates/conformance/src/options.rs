//! The options of a run, parsed and checked once.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use stowage_csi::endpoint::{Endpoint, EndpointError};

use crate::args::ConformanceArgs;
use crate::filter::Filter;
use crate::input::{self, InputError};
use crate::secrets::Secrets;

/// Added to the size of a volume if nobody says how far it should grow.
const GROWTH: i64 = 1 << 30;
/// Names have 128 bytes, and ours add a run, a case and a number.
const LONGEST_PREFIX: usize = 64;

/// How volumes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AccessType {
    /// As a filesystem.
    Mount,
    /// As a raw block device.
    Block,
}

/// Everything the cases need to know that is not the driver's to say.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the controller services are.
    pub controller_endpoint: Endpoint,
    /// Where the node service is.
    pub node_endpoint: Endpoint,
    /// Which cases run.
    pub filter: Filter,
    /// Parameters of a storage class.
    pub volume_parameters: BTreeMap<String, String>,
    /// Parameters of a snapshot class.
    pub snapshot_parameters: BTreeMap<String, String>,
    /// Parameters of a volume attributes class.
    pub mutable_parameters: BTreeMap<String, String>,
    /// Credentials by call.
    pub secrets: Secrets,
    /// Size of volumes in bytes.
    pub volume_size: i64,
    /// Size of volumes that were expanded, in bytes.
    pub expand_size: i64,
    /// How volumes are used.
    pub access_type: AccessType,
    /// Where volumes appear on the node.
    pub places: PlaceOptions,
    /// All names begin with it.
    pub name_prefix: String,
    /// How often calls that must be repeatable are made.
    pub repeat: usize,
    /// Whether to fill the node up to the limit it reports.
    pub attach_limit: bool,
    /// Deadline of each call.
    pub call_timeout: Duration,
    /// How long to wait for the driver at the start.
    pub ready_timeout: Duration,
    /// How many cases run at the same time.
    pub jobs: NonZeroUsize,
}

/// Where staging and target paths lie and who makes them. Commands are called with one path and nothing else;
/// they are for drivers that see other filesystems than this process does.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// Staging directories are made in here.
    pub staging_dir: PathBuf,
    /// Parents of target paths are made in here.
    pub target_dir: PathBuf,
    /// Makes a staging directory; prints its path if it chose another.
    pub create_staging: Option<PathBuf>,
    /// Removes a staging directory.
    pub remove_staging: Option<PathBuf>,
    /// Makes the parent of a target; prints its path if it chose another.
    pub create_target: Option<PathBuf>,
    /// Removes the parent of a target.
    pub remove_target: Option<PathBuf>,
    /// Prints what is at a path: `file`, `directory`, `not_found` or `other`.
    pub check_path: Option<PathBuf>,
    /// How long a command may take.
    pub timeout: Duration,
}

/// Why a run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// Neither the common nor the special endpoint.
    #[error("no endpoint for the {service} service: add --endpoint unix:///path/to/csi.sock")]
    EndpointMissing {
        /// Which service.
        service: &'static str,
    },
    /// Not a UNIX socket.
    #[error("{source}; write {option} unix:///path/to/csi.sock")]
    Endpoint {
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        source: EndpointError,
    },
    /// A parameter or secrets file.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Volumes cannot shrink.
    #[error(
        "--expand-size is {expand} bytes, which is not more than the {size} bytes of --volume-size: raise it"
    )]
    NoGrowth {
        /// What was asked.
        expand: i64,
        /// The size before.
        size: i64,
    },
    /// The names would not be valid.
    #[error(
        "--name-prefix `{0}` is not valid: use 1 to {LONGEST_PREFIX} letters, digits, dots, dashes or underscores"
    )]
    NamePrefix(String),
    /// A directory that is not there.
    #[error("`{}` for {option} is not a directory ({reason}): create it, or leave {option} out", path.display())]
    Directory {
        /// The option.
        option: &'static str,
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The protocol carries paths as UTF-8.
    #[error("the path `{}` for {option} is not UTF-8: use another one", path.display())]
    PathEncoding {
        /// The option.
        option: &'static str,
        /// The directory.
        path: PathBuf,
    },
}

impl TryFrom<&ConformanceArgs> for Options {
    type Error = OptionsError;

    fn try_from(args: &ConformanceArgs) -> Result<Self, OptionsError> {
        let controller = args.controller_endpoint.as_deref();
        let node = args.node_endpoint.as_deref();
        let common = args.endpoint.as_deref();
        let expand_size = args
            .expand_size
            .unwrap_or_else(|| args.volume_size.saturating_add(GROWTH));
        if expand_size <= args.volume_size {
            return Err(OptionsError::NoGrowth {
                expand: expand_size,
                size: args.volume_size,
            });
        }
        Ok(Self {
            controller_endpoint: endpoint(
                "controller",
                "--controller-endpoint",
                controller,
                common,
            )?,
            node_endpoint: endpoint("node", "--node-endpoint", node, common)?,
            filter: Filter {
                focus: args.focus.clone(),
                skip: args.skip.clone(),
            },
            volume_parameters: input::parameters(
                "--volume-parameters",
                args.volume_parameters.as_deref(),
            )?,
            snapshot_parameters: input::parameters(
                "--snapshot-parameters",
                args.snapshot_parameters.as_deref(),
            )?,
            mutable_parameters: input::parameters(
                "--mutable-parameters",
                args.mutable_parameters.as_deref(),
            )?,
            secrets: input::secrets(args.secrets.as_deref())?,
            volume_size: args.volume_size,
            expand_size,
            access_type: args.access_type,
            places: places(args)?,
            name_prefix: name_prefix(&args.name_prefix)?,
            repeat: args.repeat.get(),
            attach_limit: args.attach_limit,
            call_timeout: args.timeout,
            ready_timeout: args.ready_timeout,
            jobs: args.jobs,
        })
    }
}

fn endpoint(
    service: &'static str,
    option: &'static str,
    special: Option<&str>,
    common: Option<&str>,
) -> Result<Endpoint, OptionsError> {
    let (option, text) = match (special, common) {
        (Some(special), _) => (option, special),
        (None, Some(common)) => ("--endpoint", common),
        (None, None) => return Err(OptionsError::EndpointMissing { service }),
    };
    text.parse()
        .map_err(|source| OptionsError::Endpoint { option, source })
}

fn name_prefix(prefix: &str) -> Result<String, OptionsError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if (1..=LONGEST_PREFIX).contains(&prefix.len()) && prefix.chars().all(plain) {
        Ok(prefix.to_owned())
    } else {
        Err(OptionsError::NamePrefix(prefix.to_owned()))
    }
}

fn places(args: &ConformanceArgs) -> Result<PlaceOptions, OptionsError> {
    Ok(PlaceOptions {
        staging_dir: directory(
            "--staging-dir",
            args.staging_dir.as_deref(),
            args.create_staging_command.is_some(),
        )?,
        target_dir: directory(
            "--target-dir",
            args.target_dir.as_deref(),
            args.create_target_command.is_some(),
        )?,
        create_staging: args.create_staging_command.clone(),
        remove_staging: args.remove_staging_command.clone(),
        create_target: args.create_target_command.clone(),
        remove_target: args.remove_target_command.clone(),
        check_path: args.check_path_command.clone(),
        timeout: args.path_command_timeout,
    })
}

/// An absolute directory. If a command makes what is inside, the directory may be one that only the command sees.
fn directory(
    option: &'static str,
    given: Option<&Path>,
    elsewhere: bool,
) -> Result<PathBuf, OptionsError> {
    let path = given.map_or_else(env::temp_dir, Path::to_owned);
    let refused = |path: &Path, error: &io::Error| OptionsError::Directory {
        option,
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let path = std::path::absolute(&path).map_err(|error| refused(&path, &error))?;
    if path.to_str().is_none() {
        return Err(OptionsError::PathEncoding { option, path });
    }
    if !elsewhere {
        let metadata = path.metadata().map_err(|error| refused(&path, &error))?;
        if !metadata.is_dir() {
            return Err(refused(&path, &io::ErrorKind::NotADirectory.into()));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
