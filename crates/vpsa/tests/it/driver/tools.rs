//! `mount.nfs`, `iscsiadm` and `multipath` on this machine, for the mounts of one test only.

use std::path::{Path, PathBuf};

use stowage_sim::mounting;
use stowage_sim::vpsa::host::SOCKET_VARIABLE;
use stowage_sim::vpsa::host::initiator::Printed;
use stowage_sim::vpsa::host::tools::{iscsiadm, mount_nfs, multipath};

use crate::driver::{host, process};

/// Which tool this program is, and its arguments, a line each.
pub const TOOL: &str = "STOWAGE_TEST_TOOL";
pub const ARGUMENTS: &str = "STOWAGE_TEST_ARGUMENTS";

/// The tool that is no tool, but what they ask.
pub const HOST: &str = "host";

/// The tool that is the driver itself, for those who kill it.
pub const DRIVER: &str = "driver";

/// The tool that is the machine's own, and may be slow.
pub const MKFS: &str = "mkfs.xfs";

/// Where they ask, in the directory of the test.
pub const SOCKET: &str = "host.sock";

/// What makes this program [`stand_in`].
pub const STAND_IN: [&str; 3] = ["--exact", "driver::tools::stand_in", "--nocapture"];

/// Not a test: the tools themselves, when the driver or `mount` starts this program again.
#[test]
fn stand_in() {
    let (Ok(tool), Ok(socket)) = (std::env::var(TOOL), std::env::var(SOCKET_VARIABLE)) else {
        return;
    };
    let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
    let arguments = arguments.lines().filter(|line| !line.is_empty());
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    if tool == HOST {
        host::serve(arguments);
    }
    if tool == DRIVER {
        process::serve(arguments);
    }
    let run: Option<fn(Vec<String>, &Path) -> Printed> = match tool.as_str() {
        "iscsiadm" => Some(iscsiadm),
        "multipath" | "multipathd" => Some(multipath),
        _ => None,
    };
    if let Some(run) = run {
        let printed = run(arguments, Path::new(&socket));
        println!("\n{}", printed.out);
        eprintln!("{}", printed.err);
        std::process::exit(printed.code.into());
    }
    let arguments = arguments.into_iter().map(Into::into);
    if let Err(error) = mount_nfs(arguments, Path::new(&socket)) {
        eprintln!("{error}");
        std::process::exit(32);
    }
}

/// There while a tool is to hang.
fn hanging(directory: &Path, tool: &str) -> PathBuf {
    directory.join(format!("{tool}.hangs"))
}

/// A tool never ends from now on.
pub fn hang(directory: &Path, tool: &str) {
    std::fs::write(hanging(directory, tool), "").unwrap();
}

/// It does what it should from now on.
pub fn go_on(directory: &Path, tool: &str) {
    std::fs::remove_file(hanging(directory, tool)).unwrap();
}

/// What a tool was given so far, a line for each time: what `ps` shows to everybody.
pub fn given(directory: &Path, tool: &str) -> String {
    std::fs::read_to_string(lines(directory, tool)).unwrap_or_default()
}

fn lines(directory: &Path, tool: &str) -> PathBuf {
    directory.join(format!("{tool}.lines"))
}

/// The machine's own tool, which waits while it is to hang.
fn slow(directory: &Path, tool: &str) -> String {
    let real = directory.join(format!("{tool}.real"));
    std::fs::copy(Path::new("/usr/sbin").join(tool), &real).unwrap();
    format!(
        "#!/bin/sh\necho \"$*\" >> {}\nwhile test -e {}; do sleep 0.1; done\nexec {} \"$@\"\n",
        lines(directory, tool).display(),
        hanging(directory, tool).display(),
        real.display(),
    )
}

/// Makes this program the tools. The test has mounts of its own, so nobody else sees it.
pub fn install(directory: &Path) {
    let script = |tool: &str| {
        format!(
            "#!/bin/sh\necho \"$*\" >> {}\ntest -e {} && exec sleep 1000\n{SOCKET_VARIABLE}={} {TOOL}={tool} {ARGUMENTS}=$(printf '%s\\n' \"$@\") exec {} {}\n",
            lines(directory, tool).display(),
            hanging(directory, tool).display(),
            directory.join(SOCKET).display(),
            std::env::current_exe().unwrap().display(),
            STAND_IN.join(" "),
        )
    };
    let tools = ["mount.nfs", "iscsiadm", "multipath", "multipathd"];
    let mut scripts = tools.map(|tool| (tool, script(tool))).to_vec();
    scripts.push((MKFS, slow(directory, MKFS)));
    let scripts: Vec<(&str, &str)> = scripts
        .iter()
        .map(|(tool, text)| (*tool, text.as_str()))
        .collect();
    mounting::install(&directory.join("sbin"), &scripts).unwrap();
}
