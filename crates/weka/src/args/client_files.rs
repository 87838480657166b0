//! Where the kernel shows the Weka client. Tests show another.

use std::path::PathBuf;

/// The files that tell of the client.
#[derive(clap::Args, Clone, Debug)]
pub struct ClientFiles {
    /// The kernel's list of modules
    #[arg(
        long = "proc-modules",
        value_name = "FILE",
        default_value = "/proc/modules",
        hide = true
    )]
    pub modules: PathBuf,

    /// The Weka client's status in /proc
    #[arg(
        long = "proc-wekafs-interface",
        value_name = "FILE",
        default_value = "/proc/wekafs/interface",
        hide = true
    )]
    pub interface: PathBuf,
}
