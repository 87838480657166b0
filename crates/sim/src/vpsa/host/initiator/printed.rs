//! What `iscsiadm` prints, and how it ends.

use serde::{Deserialize, Serialize};

use crate::iscsi::initiator::LoginError;
use crate::vpsa::host::command::Place;

/// Exit codes of `iscsiadm`, and what it says with them.
pub(super) mod code {
    pub const FAILED: u8 = 1;
    pub const INVALID: u8 = 7;
    pub const TIMED_OUT: u8 = 8;
    pub const SESSION_EXISTS: u8 = 15;
    pub const FATAL_LOGIN: u8 = 19;
    pub const NOT_FOUND: u8 = 21;
    pub const NOT_AUTHORIZED: u8 = 24;
    pub const BUSY: u8 = 28;
}

/// What a command prints, and how it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// The exit code.
    pub code: u8,
    /// To standard output.
    pub out: String,
    /// To standard error.
    pub err: String,
}

impl Printed {
    pub(in crate::vpsa::host) fn failed(code: u8, err: impl Into<String>) -> Self {
        let (out, mut err) = (String::new(), err.into());
        err.push('\n');
        Self { code, out, err }
    }

    pub(in crate::vpsa::host) fn said(out: String) -> Self {
        Self {
            out,
            ..Self::default()
        }
    }

    /// One after the other; the worse code counts.
    pub(super) fn then(mut self, next: &Self) -> Self {
        self.code = self.code.max(next.code);
        self.out.push_str(&next.out);
        self.err.push_str(&next.err);
        self
    }
}

/// A session in the list of all; with its interface if that is asked for.
pub(super) fn session(id: u32, place: &Place, initiator: &str, detailed: bool) -> String {
    let Place {
        target,
        portal,
        interface,
    } = place;
    if !detailed {
        return format!("tcp: [{id}] {portal},1 {target} (non-flash)\n");
    }
    format!(
        "Target: {target} (non-flash)\n\tCurrent Portal: {portal},1\n\tPersistent Portal: {portal},1\n\
         \t\t**********\n\t\tInterface:\n\t\t**********\n\t\tIface Name: {interface}\n\
         \t\tIface Transport: tcp\n\t\tIface Initiatorname: {initiator}\n\t\tSID: {id}\n\t\tiSCSI Connection State: LOGGED IN\n"
    )
}

/// Why a login or a discovery failed, as `iscsiadm` says it.
pub(super) fn refused(error: &LoginError, could_not: &str) -> Printed {
    let (code, reason) = match error {
        LoginError::Refused(2, 1) => (
            code::NOT_AUTHORIZED,
            "iSCSI login failed due to authorization failure",
        ),
        LoginError::Refused(..) => (
            code::FATAL_LOGIN,
            "encountered non-retryable iSCSI login failure",
        ),
        LoginError::Unreachable(_) => (code::TIMED_OUT, "connection timed out"),
    };
    Printed::failed(
        code,
        format!("{could_not}\niscsiadm: initiator reported error ({code} - {reason})"),
    )
}
