//! iSCSI in user space: a target that serves files, and an initiator that logs in to it.
//!
//! As much of RFC 7143 and of SCSI as initiators of the field ask for: login with CHAP, discovery, one connection per
//! session, no digests, no error recovery beyond a new session.
//!
//! - [`pdu`]: what goes over the wire; [`text`]: the texts in it.
//! - [`chap`]: who somebody is, without telling the secret.
//! - [`scsi`]: commands, and what is said when they fail.
//! - [`target`]: serves disks to those it knows.
//! - [`initiator`]: logs in, reads and writes.

pub mod chap;
pub mod initiator;
pub mod pdu;
pub mod scsi;
pub mod target;
pub mod text;
