//! Staging and target paths of one case.
//!
//! Directories are made with a plain mkdir and removed with a plain rmdir, never with what is inside: if a driver
//! left a volume mounted there, a recursive removal would empty the volume.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{fmt, io};

use tokio::fs::{self, DirBuilder};
use tokio::process::Command;
use tokio::time::timeout;

use crate::check::Failure;
use crate::options::PlaceOptions;

/// What the kubelet gives the directories it makes for drivers.
const DIRECTORY_MODE: u32 = 0o750;

/// What is found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    File,
    Directory,
    Other,
    Nothing,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Other => "something else",
            Self::Nothing => "nothing",
        })
    }
}

/// Which directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Staging,
    TargetParent,
}

/// The directories of one case.
pub(crate) struct Places {
    options: PlaceOptions,
    /// Distinguishes the directories of this case from those of all others.
    label: String,
    made: Vec<(Place, String)>,
}

impl Places {
    pub(crate) fn new(options: PlaceOptions, label: String) -> Self {
        Self {
            options,
            label,
            made: Vec::new(),
        }
    }

    /// The staging directory, made at the first call.
    pub(crate) async fn staging(&mut self) -> Result<String, Failure> {
        self.make(Place::Staging).await
    }

    /// A target path: its parent exists, itself it does not, because the driver makes it.
    pub(crate) async fn target(&mut self, name: &str) -> Result<String, Failure> {
        let parent = self.make(Place::TargetParent).await?;
        Ok(format!("{parent}/{name}"))
    }

    async fn make(&mut self, place: Place) -> Result<String, Failure> {
        if let Some((_, path)) = self.made.iter().find(|(made, _)| *made == place) {
            return Ok(path.clone());
        }
        let (folder, command, suffix) = match place {
            Place::Staging => (
                &self.options.staging_dir,
                &self.options.create_staging,
                "staging",
            ),
            Place::TargetParent => (
                &self.options.target_dir,
                &self.options.create_target,
                "target",
            ),
        };
        let path = format!("{}/{}-{suffix}", folder.display(), self.label);
        let made = match command {
            Some(command) => self
                .run(command, &path)
                .await
                .map(|printed| match printed.trim() {
                    "" => path.clone(),
                    other => other.to_owned(),
                }),
            None => DirBuilder::new()
                .mode(DIRECTORY_MODE)
                .create(&path)
                .await
                .map(|()| path.clone())
                .map_err(|error| error.to_string()),
        };
        let made = made.map_err(|reason| {
            Failure::new(
                format!("creating the directory `{path}`"),
                "a new directory",
                reason,
            )
        })?;
        self.made.push((place, made.clone()));
        Ok(made)
    }

    /// What is at a path now.
    pub(crate) async fn look(&self, path: &str) -> Result<Found, Failure> {
        let found = match &self.options.check_path {
            Some(command) => {
                self.run(command, path)
                    .await
                    .and_then(|printed| match printed.trim() {
                        "file" => Ok(Found::File),
                        "directory" => Ok(Found::Directory),
                        "other" => Ok(Found::Other),
                        "not_found" => Ok(Found::Nothing),
                        text => Err(format!(
                            "`{}` printed `{text}` and not file, directory, not_found or other",
                            command.display()
                        )),
                    })
            }
            None => look(Path::new(path))
                .await
                .map_err(|error| error.to_string()),
        };
        found.map_err(|reason| {
            Failure::new(
                format!("looking at `{path}`"),
                "to see what is there",
                reason,
            )
        })
    }

    /// Removes what was made, last first; gives what the driver left behind.
    pub(crate) async fn remove(&mut self) -> Vec<Failure> {
        let mut failures = Vec::new();
        while let Some((place, path)) = self.made.pop() {
            let command = match place {
                Place::Staging => &self.options.remove_staging,
                Place::TargetParent => &self.options.remove_target,
            };
            let removed = match command {
                Some(command) => self.run(command, &path).await.map(drop),
                None => fs::remove_dir(&path)
                    .await
                    .map_err(|error| error.to_string()),
            };
            if let Err(reason) = removed {
                failures.push(Failure::new(
                    format!("removing the directory `{path}`"),
                    "an empty directory on which nothing is mounted",
                    reason,
                ));
            }
        }
        failures
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "a command that the user has named, not a tool of the host"
    )]
    async fn run(&self, command: &PathBuf, path: &str) -> Result<String, String> {
        let shown = command.display();
        let output = Command::new(command)
            .arg(path)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(self.options.timeout, output)
            .await
            .map_err(|_| format!("`{shown}` took longer than {:?}", self.options.timeout))?
            .map_err(|error| format!("cannot run `{shown}`: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "`{shown}` ended with {}: {}",
                output.status,
                said.trim()
            ))
        }
    }
}

async fn look(path: &Path) -> io::Result<Found> {
    match fs::symlink_metadata(path).await {
        Ok(metadata) if metadata.is_dir() => Ok(Found::Directory),
        Ok(metadata) if metadata.is_file() => Ok(Found::File),
        Ok(_) => Ok(Found::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests run programs")]
mod tests;
