//! The stand-ins for `mount.nfs`, `iscsiadm`, `multipath` and `multipathd`: they ask the process that stands in for the kernel.

use std::os::unix::net::UnixStream;
use std::path::Path;

use super::Question;
use super::initiator::Printed;
use crate::handover::{receive, send};
pub use crate::nfs::tool::{MountError, mount_nfs};

/// Runs `iscsiadm`; what it prints, and its exit code.
pub fn iscsiadm(arguments: Vec<String>, socket: &Path) -> Printed {
    // What iscsiadm says when its daemon does not answer.
    let silence = (20, "iscsiadm: can not connect to iSCSI daemon (111)!\n");
    run(&Question::Iscsiadm(arguments), socket, silence)
}

/// Runs `multipath` or `multipathd`; what they print, and their exit code.
pub fn multipath(arguments: Vec<String>, socket: &Path) -> Printed {
    let silence = (1, "error -1 receiving packet\n");
    run(&Question::Multipath(arguments), socket, silence)
}

/// Has a command run; `silence` is its code and its words if nobody answers.
fn run(question: &Question, socket: &Path, silence: (u8, &str)) -> Printed {
    let asked = UnixStream::connect(socket).and_then(|mut stream| {
        send(&mut stream, question)?;
        receive(&mut stream)
    });
    asked.unwrap_or_else(|_| Printed {
        code: silence.0,
        out: String::new(),
        err: silence.1.to_owned(),
    })
}
