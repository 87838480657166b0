//! The flags that every driver has: [`DriverArgs`] is what was typed, [`Serving`] what it means. What several drivers check
//! of their own flags is here too.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, ValueEnum};

use crate::endpoint::{Endpoint, EndpointError};
use crate::name::{DriverName, InvalidName};

/// Flags of every driver.
///
/// A driver gives its own name when it flattens these:
/// `#[command(mut_arg("driver_name", |arg| arg.default_value("csi-example").required(false)))]`.
#[derive(clap::Args, Clone, Debug)]
pub struct DriverArgs {
    /// Name of the driver, as in the CSIDriver object and in storage classes
    #[arg(long = "drivername", value_name = "NAME")]
    pub driver_name: String,

    /// Socket to serve on, such as `unix:///csi/csi.sock`
    #[arg(long, value_name = "SOCKET", env = "CSI_ENDPOINT")]
    pub endpoint: String,

    /// Which services to offer
    #[arg(long, value_enum, default_value_t = Mode::All)]
    pub mode: Mode,

    /// Maximum number of volumes on this node; 0 means no limit
    #[arg(long = "maxvolumespernode", value_name = "NUMBER", default_value_t = 0)]
    pub max_volumes_per_node: u32,
}

/// Which services a process offers. All of them answer for themselves (Identity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Create, delete, expand.
    Controller,
    /// Mount on this node.
    Node,
    /// Both.
    All,
}

impl Mode {
    /// Whether the Controller service is offered.
    pub fn has_controller(self) -> bool {
        self != Self::Node
    }

    /// Whether the Node service is offered.
    pub fn has_node(self) -> bool {
        self != Self::Controller
    }
}

/// Why a flag cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// Not the name of a driver.
    #[error("--drivername: {0}")]
    DriverName(#[from] InvalidName),
    /// Not a socket.
    #[error("--endpoint")]
    Endpoint(#[from] EndpointError),
    /// A path that means something else after the next `chdir`.
    #[error("--{flag} is `{}`: use an absolute path", path.display())]
    Relative {
        /// The flag.
        flag: &'static str,
        /// What was given.
        path: PathBuf,
    },
    /// Nothing could ever be done.
    #[error("--{0} is 0: use a number greater than 0")]
    Zero(&'static str),
}

/// The flags of every driver, checked.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Known to be a driver's name.
    pub driver_name: String,
    /// The socket.
    pub endpoint: Endpoint,
    /// The services.
    pub mode: Mode,
    /// 0 means no limit.
    pub max_volumes: u32,
}

impl TryFrom<DriverArgs> for Serving {
    type Error = FlagError;

    fn try_from(args: DriverArgs) -> Result<Self, FlagError> {
        args.driver_name.parse::<DriverName>()?;
        Ok(Self {
            endpoint: endpoint(&args.endpoint)?,
            driver_name: args.driver_name,
            mode: args.mode,
            max_volumes: args.max_volumes_per_node,
        })
    }
}

/// Go drivers take `unix://csi/csi.sock` for `/csi/csi.sock`, and manifests are written so. A path by itself may be relative.
fn endpoint(text: &str) -> Result<Endpoint, EndpointError> {
    match text.strip_prefix("unix://") {
        Some(path) if !path.is_empty() && !path.starts_with('/') => format!("/{path}").parse(),
        _ => text.parse(),
    }
}

/// A flag of a Go program that is on or off: `--flag`, `--flag=true`, `--flag=false`. For `mut_arg` of a field of type bool.
pub fn switch(argument: Arg) -> Arg {
    argument
        .action(ArgAction::Set)
        .value_name("BOOL")
        .value_parser(BoolishValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
}

/// A directory that stays the same wherever the process goes.
pub fn absolute(flag: &'static str, path: PathBuf) -> Result<PathBuf, FlagError> {
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(FlagError::Relative { flag, path })
    }
}

/// A number that must not be 0.
pub fn at_least_one(flag: &'static str, number: usize) -> Result<usize, FlagError> {
    if number == 0 {
        Err(FlagError::Zero(flag))
    } else {
        Ok(number)
    }
}

/// A time that is one.
pub fn seconds(flag: &'static str, number: u64) -> Result<Duration, FlagError> {
    if number == 0 {
        Err(FlagError::Zero(flag))
    } else {
        Ok(Duration::from_secs(number))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(mut_arg("driver_name", |arg| arg.default_value("csi-example").required(false)))]
    struct Command {
        #[command(flatten)]
        args: DriverArgs,
    }

    fn serving(words: &[&str]) -> Result<Serving, FlagError> {
        let words = ["driver"].iter().chain(words);
        Command::try_parse_from(words).unwrap().args.try_into()
    }

    #[test]
    fn the_endpoint_is_enough_where_a_driver_has_a_name() {
        let serving = serving(&["--endpoint=/csi/csi.sock"]).unwrap();
        assert_eq!(serving.driver_name, "csi-example");
        assert!(serving.mode.has_controller() && serving.mode.has_node());
        assert!(Command::try_parse_from(["driver"]).is_err());
        assert!(Command::try_parse_from(["driver", "--endpoint=/x", "--mode=both"]).is_err());
    }

    #[test]
    fn two_slashes_are_as_good_as_three() {
        for (text, path) in [
            ("unix://csi/csi.sock", "/csi/csi.sock"),
            ("unix:///csi/csi.sock", "/csi/csi.sock"),
            ("csi.sock", "csi.sock"),
        ] {
            let serving = serving(&[&format!("--endpoint={text}")]).unwrap();
            assert_eq!(serving.endpoint.path(), std::path::Path::new(path));
        }
        assert!(serving(&["--endpoint=unix://"]).is_err());
    }

    #[test]
    fn wrong_flags_are_named_with_the_remedy() {
        for (words, expected) in [
            (
                vec!["--endpoint=/a.sock", "--drivername=-"],
                "--drivername: `-` is not a valid CSI driver name",
            ),
            (vec!["--endpoint=tcp://1.2.3.4:5"], "--endpoint"),
        ] {
            let error = serving(&words).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let relative = absolute("statedir", PathBuf::from("data")).unwrap_err();
        assert_eq!(
            relative.to_string(),
            "--statedir is `data`: use an absolute path"
        );
        let zero = "--workers is 0: use a number greater than 0";
        assert_eq!(at_least_one("workers", 0).unwrap_err().to_string(), zero);
        assert_eq!(seconds("workers", 0).unwrap_err().to_string(), zero);
    }
}
