//! Disks that several paths lead to, through `multipathd` (multipath-tools): it makes a device for all paths to a disk, by which
//! the disk is reached as long as one of them works.

use std::path::PathBuf;
use std::sync::Arc;

use stowage_api::causes::chain;
use stowage_host::blocking;
use stowage_host::exec::{Exec, ExecError, Invocation, Tool};

use super::disk::{Device, Disk, Map};

const MULTIPATHD: Tool = Tool {
    name: "multipathd",
    package: "multipath-tools",
};

const MULTIPATH: Tool = Tool {
    name: "multipath",
    package: "multipath-tools",
};

/// Device, map and state of each path.
const FORMAT: &str = "%d|%m|%t";

/// The map of a path that is in none.
const ORPHAN: &str = "[orphan]";

/// The state of a path that works.
const ACTIVE: &str = "active";

/// Why a map is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum MultipathError {
    /// The tool.
    #[error("cannot {doing} the map `{map}`")]
    Tool {
        /// What it was to do.
        doing: &'static str,
        /// To which map.
        map: String,
        /// What it said.
        #[source]
        source: ExecError,
    },
    /// The daemon refuses.
    #[error("multipathd cannot {doing} the map `{map}`: {said}")]
    Refused {
        /// What it was to do.
        doing: &'static str,
        /// To which map.
        map: String,
        /// What it said.
        said: String,
    },
}

/// Disks that several paths lead to.
pub struct Multipath {
    /// Runs the tools.
    pub exec: Arc<dyn Exec>,
    /// Where links to maps are.
    pub mapper: PathBuf,
}

/// One path, as `multipathd` knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathState {
    device: String,
    map: Option<String>,
    works: bool,
}

impl Multipath {
    /// Whether somebody joins paths on this node.
    pub async fn runs(&self) -> bool {
        self.paths().await.is_some()
    }

    /// All paths that the daemon knows; none if it does not run.
    async fn paths(&self) -> Option<Vec<PathState>> {
        let words = ["show", "paths", "raw", "format", FORMAT];
        let output = self.exec.run(Invocation::new(MULTIPATHD).args(words)).await;
        match output.and_then(stowage_host::exec::Output::checked) {
            Ok(output) => Some(parse(&String::from_utf8_lossy(&output.stdout))),
            Err(error) => {
                tracing::debug!(error = chain(&error), "multipathd does not answer.");
                None
            }
        }
    }

    /// The disks with their maps.
    pub async fn with_maps(&self, mut disks: Vec<Disk>) -> Vec<Disk> {
        if !disks.iter().any(Disk::may_have_map) {
            return disks;
        }
        let Some(paths) = self.paths().await else {
            return disks;
        };
        for disk in &mut disks {
            if let Some((name, working)) = map_of(disk, &paths) {
                let link = self.mapper.join(&name);
                let device = blocking(move || Device::at(&link)).await;
                disk.map = device.map(|device| Map {
                    name,
                    device,
                    working,
                });
            }
        }
        disks
    }

    /// Lets a map be as large as its paths are by now. Called twice: it is.
    pub async fn resize(&self, map: &str) -> Result<(), MultipathError> {
        let doing = "resize";
        let invocation = Invocation::new(MULTIPATHD).args(["resize", "map", map]);
        let said = self.run(doing, map, invocation).await?;
        // Older versions say so only in words.
        if said.trim().lines().last() == Some("ok") {
            return Ok(());
        }
        Err(MultipathError::Refused {
            doing,
            map: map.to_owned(),
            said: said.trim().to_owned(),
        })
    }

    /// Writes everything and takes a map away. One that is in use stays, and is an error.
    pub async fn flush(&self, map: &str) -> Result<(), MultipathError> {
        let invocation = Invocation::new(MULTIPATH).args(["-f", map]);
        self.run("flush", map, invocation).await.map(drop)
    }

    async fn run(
        &self,
        doing: &'static str,
        map: &str,
        invocation: Invocation,
    ) -> Result<String, MultipathError> {
        let output = self.exec.run(invocation).await;
        let output = output.and_then(stowage_host::exec::Output::checked);
        let output = output.map_err(|source| MultipathError::Tool {
            doing,
            map: map.to_owned(),
            source,
        })?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// `sda|mpatha|active`, a line for each path.
fn parse(text: &str) -> Vec<PathState> {
    let line = |line: &str| {
        let mut words = line.trim().split('|').map(str::trim);
        let (device, map) = (words.next()?, words.next()?);
        Some(PathState {
            device: device.to_owned(),
            map: Some(map.to_owned()).filter(|map| map != ORPHAN),
            works: words.next() == Some(ACTIVE),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The map of a disk, and how many of its paths work.
fn map_of(disk: &Disk, paths: &[PathState]) -> Option<(String, usize)> {
    let known = |path: &&PathState| disk.paths.iter().any(|own| own.name() == path.device);
    let name = paths.iter().filter(known).find_map(|it| it.map.clone())?;
    let in_map = paths.iter().filter(|it| it.map.as_ref() == Some(&name));
    let working = in_map.filter(|it| it.works).count();
    Some((name, working))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_map_of_any_of_its_paths() {
        let paths = parse("sda|mpatha|active\nsdb|mpatha|failed\nsdc|[orphan]|undef\nnonsense\n");
        assert_eq!(paths.len(), 3);
        for (devices, expected) in [
            (
                &["/dev/sdb", "/dev/sda"][..],
                Some(("mpatha".to_owned(), 1)),
            ),
            (&["/dev/sdc"], None),
            (&["/dev/sdz"], None),
        ] {
            let device = |path: &&str| Device {
                path: path.into(),
                number: None,
            };
            let disk = Disk {
                target: "iqn.a".to_owned(),
                lun: 0,
                paths: devices.iter().map(device).collect(),
                held: true,
                map: None,
                is_linked: true,
            };
            assert_eq!(map_of(&disk, &paths), expected, "{devices:?}");
        }
    }
}
