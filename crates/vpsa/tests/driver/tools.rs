//! `mount.nfs` and `iscsiadm` on this machine, for the mounts of one test only.

use std::path::Path;

use stowage_sim::mounting;
use stowage_sim::vpsa::host::SOCKET_VARIABLE;
use stowage_sim::vpsa::host::tools::{iscsiadm, mount_nfs};

/// Which tool this program is, and its arguments, a line each.
const TOOL: &str = "STOWAGE_TEST_TOOL";
const ARGUMENTS: &str = "STOWAGE_TEST_ARGUMENTS";

/// Not a test: the tools themselves, when the driver or `mount` starts this program again.
#[test]
fn stand_in() {
    let (Ok(tool), Ok(socket)) = (std::env::var(TOOL), std::env::var(SOCKET_VARIABLE)) else {
        return;
    };
    let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
    let arguments = arguments.lines().filter(|line| !line.is_empty());
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    if tool == "iscsiadm" {
        let printed = iscsiadm(arguments, Path::new(&socket));
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

/// Makes this program the tools. The test has mounts of its own, so nobody else sees it.
pub fn install(directory: &Path) {
    let script = |tool: &str| {
        format!(
            "#!/bin/sh\n{SOCKET_VARIABLE}={} {TOOL}={tool} {ARGUMENTS}=$(printf '%s\\n' \"$@\") exec {} --exact tools::stand_in --nocapture\n",
            directory.join("host.sock").display(),
            std::env::current_exe().unwrap().display(),
        )
    };
    let scripts = ["mount.nfs", "iscsiadm"].map(|tool| (tool, script(tool)));
    let scripts: Vec<(&str, &str)> = scripts
        .iter()
        .map(|(tool, text)| (*tool, text.as_str()))
        .collect();
    mounting::install(&directory.join("sbin"), &scripts).unwrap();
}
