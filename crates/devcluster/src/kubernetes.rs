//! The Kubernetes binaries: built once from Debian's source package, or the user's own.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::debian::{self, Scratch};
use crate::error::{Doing, Result, refused};
use crate::process::{capture, logged};
use crate::report::Report;
use crate::{checksums, places};

/// The version in Debian 12, and our revision of the recipe below.
const VERSION: &str = "v1.20.2";
const RECIPE: u32 = 1;

/// Lines that `go build -v` prints for all programs together; only the progress bar depends on it.
const PACKAGES_TO_COMPILE: u64 = 2_373;

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

/// Our own kubectl if there is one, else the machine's: a user's own cluster needs no binaries of ours.
pub fn kubectl_program() -> PathBuf {
    Kubernetes::already_there().map_or_else(|_| "kubectl".into(), |ours| ours.program("kubectl"))
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
                "no Kubernetes binaries are there yet: run `./x up` once, or set KUBEBUILDER_ASSETS",
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
            "`{}` holds no {}: add it, or unset KUBEBUILDER_ASSETS to use the built-in version",
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

    /// What a program can be told. Flags came and went: asking beats a table of versions.
    pub fn help(&self, name: &str) -> Result<Help> {
        capture(Command::new(self.program(name)).arg("--help")).map(Help)
    }

    fn given(directory: PathBuf) -> Result<Self> {
        if !directory.join("kube-apiserver").is_file() {
            return refused(format!(
                "KUBEBUILDER_ASSETS is `{}`, which holds no kube-apiserver: point it at a directory of \
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

/// The `--help` text of a program.
pub struct Help(String);

impl From<&str> for Help {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Help {
    /// Whether it knows `--name`.
    pub fn has_flag(&self, name: &str) -> bool {
        let flag = format!("--{name}");
        self.0
            .split([' ', '\n', '\t', '=', ',', '['])
            .any(|word| word == flag)
    }

    /// Whether the text contains a word, such as the name of a controller.
    pub fn mentions(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// Whether it knows a feature gate that is off unless asked for.
    pub fn can_switch_on(&self, gate: &str) -> bool {
        let wanted = format!("{gate}=true|false");
        self.0.lines().any(|line| {
            line.trim_start()
                .trim_start_matches("kube:")
                .starts_with(&wanted)
                && line.contains("default=false")
        })
    }
}

fn minor_of(version: &str) -> Option<u32> {
    let mut numbers = version.trim_start_matches('v').split('.');
    (numbers.next()? == "1").then_some(())?;
    numbers.next()?.parse().ok()
}

/// Builds all programs with Debian's Go. Nothing is visible under `place` before everything is done.
fn build(place: &Path, report: &Report) -> Result<()> {
    debian::install_missing(debian::FOR_BUILDING, report)?;
    let scratch = Scratch::new("kubernetes")?;
    let step = report.step(format!(
        "Fetching the source of Kubernetes {VERSION} and Go from Debian"
    ));
    let packages = [
        "golang-1.19-go",
        "golang-1.19-src",
        "golang-github-modern-go-reflect2-dev",
    ];
    debian::unpack(&packages, scratch.path(), report)?;
    let source = debian::unpack_source("kubernetes", scratch.path(), report)?;
    replace_reflect2(&source, &scratch.path().join("root"))?;
    step.done("");

    let step = report.step(format!(
        "Building Kubernetes {VERSION} (once, about five minutes on two cores)"
    ));
    let mut compiled = 0;
    logged(&mut make(&source, scratch.path())?, report.log(), |line| {
        // With -v the compiler names each package it is done with, one a line.
        if line.contains('/') && !line.contains(' ') {
            compiled += 1;
            step.progress(compiled, PACKAGES_TO_COMPILE);
        }
    })?;
    step.done("");

    let next = scratch.path().join("next");
    places::make(&next)?;
    for name in CONTROL_PLANE.iter().chain(NODE) {
        let from = source
            .join("_output/local/bin/linux")
            .join(go_arch())
            .join(name);
        fs::copy(&from, next.join(name)).doing(|| format!("cannot copy `{}`", from.display()))?;
    }
    checksums::seal(&next)?;
    scratch.become_directory(&next, place)
}

fn make(source: &Path, scratch: &Path) -> Result<Command> {
    // The build insists on a GOPATH, so the tree has to appear at the right place inside one.
    let go_path = scratch.join("gopath");
    let parent = go_path.join("src/k8s.io");
    places::make(&parent)?;
    let tree = parent.join("kubernetes");
    symlink(source, &tree).doing(|| format!("cannot link `{}`", tree.display()))?;
    let go_root = scratch.join("root/usr/lib/go-1.19");
    let path = env::var("PATH").unwrap_or_default();
    let programs: Vec<String> = CONTROL_PLANE
        .iter()
        .chain(NODE)
        .map(|name| format!("cmd/{name}"))
        .collect();
    let mut command = Command::new("make");
    command
        .arg(format!("WHAT={}", programs.join(" ")))
        .arg("GOFLAGS=-v")
        .arg("GOLDFLAGS=-s -w")
        .current_dir(&tree)
        .env("PWD", &tree)
        .env("PATH", format!("{}:{path}", go_root.join("bin").display()))
        .env("GOROOT", &go_root)
        .env("GOPATH", &go_path)
        .env("GOCACHE", scratch.join("gocache"))
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0")
        .env("KUBE_GIT_VERSION", VERSION)
        .env("KUBE_GIT_TREE_STATE", "archive");
    Ok(command)
}

/// The vendored reflect2 1.0.1 does not fit Go 1.18 and later: the API server would die in `mapiterinit`
/// when it answers in JSON. Debian's 1.0.2 does. The old files must go first, their names collide.
fn replace_reflect2(source: &Path, root: &Path) -> Result<()> {
    let vendored = source.join("vendor/github.com/modern-go/reflect2");
    let fixed = root.join("usr/share/gocode/src/github.com/modern-go/reflect2");
    let go_files = |directory: &Path| -> Result<Vec<PathBuf>> {
        let what = || format!("cannot read `{}`", directory.display());
        let paths = fs::read_dir(directory)
            .doing(what)?
            .flatten()
            .map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|e| e == "go"))
            .collect())
    };
    for old in go_files(&vendored)? {
        fs::remove_file(&old).doing(|| format!("cannot remove `{}`", old.display()))?;
    }
    for new in go_files(&fixed)? {
        let to = vendored.join(new.file_name().unwrap_or_default());
        fs::copy(&new, &to).doing(|| format!("cannot copy `{}`", new.display()))?;
    }
    Ok(())
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

    #[test]
    fn help_tells_flags_and_gates() {
        let help = Help(
            "      --port int   The port\n      --insecure-bind-address ip  x\n\
             --feature-gates mapStringBool\n   CSIStorageCapacity=true|false (ALPHA - default=false)\n\
             AnyVolumeDataSource=true|false (BETA - default=true)\n   kube:NewOne=true|false (ALPHA - default=false)"
                .to_owned(),
        );
        assert!(help.has_flag("port") && help.has_flag("insecure-bind-address"));
        assert!(!help.has_flag("insecure-port"));
        assert!(help.can_switch_on("CSIStorageCapacity") && help.can_switch_on("NewOne"));
        assert!(
            !help.can_switch_on("AnyVolumeDataSource")
                && !help.can_switch_on("GenericEphemeralVolume")
        );
    }
}
