//! Tools of the machine for a driver in a container: run with the mounts and the network of a process outside of it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Exec, ExecError, HostFuture, Invocation, Output, Tool};

/// Enters the namespaces of another process.
pub(super) const NSENTER: Tool = Tool {
    name: "nsenter",
    package: "util-linux",
};

/// What `nsenter` returns when it does not find the tool.
pub(super) const NOT_FOUND: i32 = 127;

/// A process outside of the container; in a pod with `hostPID` the first process is the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostProcess(pub u32);

impl HostProcess {
    /// A file of the machine, as this process reaches it. Good for opening: a link in it to an absolute path leads back
    /// into the container.
    pub fn file(self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").unwrap_or(path);
        Path::new("/proc")
            .join(self.0.to_string())
            .join("root")
            .join(relative)
    }

    /// What comes before the tool on the command line.
    pub(super) fn entering(self) -> [String; 5] {
        let words = ["--target", &self.0.to_string(), "--mount", "--net", "--"];
        words.map(str::to_owned)
    }
}

impl fmt::Display for HostProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Runs every tool outside of the container.
pub struct OutsideExec {
    /// Runs them.
    pub exec: Arc<dyn Exec>,
    /// Whose files and network they see.
    pub process: HostProcess,
}

impl Exec for OutsideExec {
    fn run(&self, invocation: Invocation) -> HostFuture<'_, Result<Output, ExecError>> {
        self.exec.run(invocation.as_seen_by(self.process))
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostExec;
    use super::*;

    const CAT: Tool = Tool {
        name: "cat",
        package: "coreutils",
    };

    fn outside() -> OutsideExec {
        OutsideExec {
            exec: Arc::new(HostExec),
            process: HostProcess(std::process::id()),
        }
    }

    #[test]
    fn files_are_found_below_the_root_of_the_process() {
        let file = HostProcess(1).file(Path::new("/etc/iscsi/nodes"));
        assert_eq!(file, Path::new("/proc/1/root/etc/iscsi/nodes"));
    }

    #[tokio::test]
    async fn a_tool_runs_with_its_input_and_a_missing_one_is_named() {
        let said = outside().run(Invocation::new(CAT).stdin("outside")).await;
        let said = said.unwrap().checked().unwrap();
        assert_eq!((said.tool, said.stdout.as_slice()), (CAT, &b"outside"[..]));
        let missing = Tool {
            name: "no-such-tool",
            package: "open-iscsi",
        };
        let error = outside().run(Invocation::new(missing)).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("install Debian package `open-iscsi`"),
            "{error}"
        );
    }
}
