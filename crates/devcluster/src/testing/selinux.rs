//! SELinux's tools and Debian's policy, unpacked from Debian's packages into the cache. A kernel with SELinux is not needed:
//! policies are files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::{Scratch, unpack};
use crate::error::{Doing, Result};
use crate::process::capture;
use crate::report::Report;
use crate::{checksums, places};

/// The tools; those of setools are written in Python.
const PACKAGES: &[&str] = &[
    "checkpolicy",
    "semodule-utils",
    "secilc",
    "policycoreutils",
    "selinux-policy-default",
    "setools",
    "python3-setools",
    "python3-networkx",
    "python3-pkg-resources",
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libexpat1",
    "libsepol2",
    "bzip2",
];

/// The tools that are written in Python.
const IN_PYTHON: &[&str] = &["sesearch", "seinfo"];

/// What turns a policy package into a text.
const TO_TEXT: &str = "usr/libexec/selinux/hll/pp";

/// The part of Debian's policy that all other parts need.
const BASE: &str = "base.pp";

/// Where they are.
pub struct SelinuxTools(PathBuf);

impl SelinuxTools {
    /// Fetched by the first who asks. Called twice: they are there.
    pub fn ensure() -> Result<Self> {
        let place = places::cache().join("selinux-1");
        let _lock = places::lock("selinux", || {})?;
        if !checksums::is_sealed(&place) {
            let scratch = Scratch::new("selinux")?;
            let report = Report::silent(scratch.path().join("log"));
            unpack(PACKAGES, scratch.path(), &report)?;
            let root = scratch.path().join("root");
            write_base(&Self(root.clone()))?;
            checksums::seal(&root)?;
            scratch.become_directory(&root, &place)?;
        }
        Ok(Self(place))
    }

    /// One of the tools, such as `checkmodule` or `sesearch`.
    pub fn command(&self, tool: &str) -> Command {
        let program = self.0.join("usr/bin").join(tool);
        if !IN_PYTHON.contains(&tool) {
            return self.with_libraries(&program);
        }
        let mut python = self.with_libraries(&self.0.join("usr/bin/python3.11"));
        python
            .arg(program)
            .env("PYTHONHOME", self.0.join("usr"))
            .env("PYTHONPATH", self.0.join("usr/lib/python3/dist-packages"))
            // What was unpacked stays as it was.
            .env("PYTHONDONTWRITEBYTECODE", "1");
        python
    }

    /// Turns a policy package into a text: its arguments are the two files.
    pub fn to_text(&self) -> Command {
        self.with_libraries(&self.0.join(TO_TEXT))
    }

    /// The package with the base of Debian's policy.
    pub fn base_policy(&self) -> PathBuf {
        self.0.join(BASE)
    }

    fn with_libraries(&self, program: &Path) -> Command {
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
        let libraries = libraries.map(|directory| self.0.join(directory).display().to_string());
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", libraries.join(":"));
        command
    }
}

/// Debian compresses it.
fn write_base(tools: &SelinuxTools) -> Result<()> {
    let packed = tools.0.join("usr/share/selinux/default/base.pp.bz2");
    let unpacked = packed.with_extension("");
    capture(
        Command::new(tools.0.join("bin/bzip2"))
            .arg("--decompress")
            .arg(&packed),
    )?;
    let base = tools.base_policy();
    fs::rename(&unpacked, &base).doing(|| format!("cannot rename to `{}`", base.display()))
}
