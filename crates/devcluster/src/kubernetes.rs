//! The Kubernetes binaries: built once from Debian's source package, or the user's own.

mod build;
mod help;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::build::build;
pub use self::help::Help;
use crate::error::{Result, refused};
use crate::process::capture;
use crate::report::Report;
use crate::{checksums, places};

/// The version in Debian 12, and our revision of the recipe below.
const VERSION: &str = "v1.20.2";
const RECIPE: u32 = 2;

/// Programs of the control plane.
pub const CONTROL_PLANE: &[&str] = &[
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];
/// Programs of a node.
pub const NODE: &[&str] = &["kubelet", "kube-proxy"];

/// A directory of Kubernetes binaries and what is known about them.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    directory: PathBuf,
    minor: u32,
    version: String,
}

/// The kubectl that we built, else the machine's: a user's own cluster does not need ours.
pub fn kubectl_program() -> PathBuf {
    Kubernetes::already_there().map_or_else(|_| "kubectl".into(), |ours| ours.program("kubectl"))
}

/// `kubectl` for a kubeconfig. What it remembers of the server's kinds is beside that, as `~/.kube/cache` is beside `~/.kube/config`:
/// another server may have the same address later, with other kinds.
pub fn kubectl(program: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    let cache = kubeconfig.with_file_name("cache");
    command.arg("--kubeconfig").arg(kubeconfig);
    command.arg("--cache-dir").arg(cache);
    command
}

/// Where binaries would come from, asked before anything is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `KUBEBUILDER_ASSETS`.
    Given(PathBuf),
    /// Built before.
    Cached(PathBuf),
    /// Has to be built; will be here.
    ToBuild(PathBuf),
}

impl Source {
    /// Looks at the environment and the cache.
    pub fn find() -> Self {
        if let Some(given) = env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
            return Self::Given(PathBuf::from(given));
        }
        let built = places::cache().join(format!("kubernetes-{VERSION}-{RECIPE}"));
        if checksums::is_sealed(&built) {
            Self::Cached(built)
        } else {
            Self::ToBuild(built)
        }
    }
}

impl Kubernetes {
    /// Makes sure of the binaries: verifies the cache, builds what is missing, or takes what was given.
    pub fn ensure(report: &Report) -> Result<Self> {
        match Source::find() {
            Source::Given(directory) => Self::given(directory),
            Source::Cached(directory) => Self::cached(directory),
            Source::ToBuild(directory) => {
                let _one_builder =
                    places::lock("build", || report.say("Waiting for another build"))?;
                if !checksums::is_sealed(&directory) {
                    build(&directory, report)?;
                }
                Self::cached(directory)
            }
        }
    }

    /// For tests: what is there already.
    pub fn already_there() -> Result<Self> {
        match Source::find() {
            Source::Given(directory) => Self::given(directory),
            Source::Cached(directory) => Self::read(directory),
            Source::ToBuild(_) => refused(
                "Kubernetes has not been built on this machine yet: run `./x up` once, or set KUBEBUILDER_ASSETS",
            ),
        }
    }

    /// The path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Refuses if a program is not there.
    pub fn must_have(&self, names: &[&str]) -> Result<()> {
        let missing: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| !self.program(name).is_file())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        refused(format!(
            "`{}` does not contain {}: add it, or unset KUBEBUILDER_ASSETS to use the built-in version",
            self.directory.display(),
            missing.join(", ")
        ))
    }

    /// The directory of the binaries.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `20` for 1.20.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// As the API server prints it, for example `v1.20.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The flags and feature gates of a program. They came and went: asking beats a table of versions.
    pub fn help(&self, name: &str) -> Result<Help> {
        capture(Command::new(self.program(name)).arg("--help")).map(Help::from)
    }

    fn given(directory: PathBuf) -> Result<Self> {
        if !directory.join("kube-apiserver").is_file() {
            return refused(format!(
                "KUBEBUILDER_ASSETS is `{}`, which does not contain kube-apiserver: point it at a directory of \
                 Kubernetes binaries (1.20 to 1.36), or unset it",
                directory.display()
            ));
        }
        Self::read(directory)
    }

    fn cached(directory: PathBuf) -> Result<Self> {
        checksums::verify(&directory)?;
        Self::read(directory)
    }

    fn read(directory: PathBuf) -> Result<Self> {
        let said = capture(Command::new(directory.join("kube-apiserver")).arg("--version"))?;
        let version = said.trim().trim_start_matches("Kubernetes ").to_owned();
        let minor = minor_of(&version).unwrap_or_default();
        if minor < 20 {
            return refused(format!(
                "the binaries in `{}` are Kubernetes {version}: 1.20 is the oldest that is supported",
                directory.display()
            ));
        }
        Ok(Self {
            directory,
            minor,
            version,
        })
    }
}

fn minor_of(version: &str) -> Option<u32> {
    let mut numbers = version.trim_start_matches('v').split('.');
    (numbers.next()? == "1").then_some(())?;
    numbers.next()?.parse().ok()
}

/// Go's name of this architecture; images carry it too.
pub fn go_arch() -> &'static str {
    match env::consts::ARCH {
        "aarch64" => "arm64",
        "x86_64" => "amd64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(minor_of("v1.20.2"), Some(20));
        assert_eq!(minor_of("v1.36.4-rc.1"), Some(36));
        assert_eq!(minor_of("v2.0.0"), None);
        assert_eq!(minor_of("garbage"), None);
    }
}
