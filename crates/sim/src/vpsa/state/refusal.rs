//! Why the array says no.

use crate::moment::Millis;

/// Why the array says no: always with HTTP 200, a code, and a sentence. The codes of the first few are the array's own;
/// those of the others are not public, and ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The access key is missing or wrong.
    #[error("Invalid credentials.")]
    Credentials,
    /// No such volume.
    #[error("Virtual volume {0} not found")]
    VolumeMissing(String),
    /// No such volume to delete.
    #[error("Volume {0} was not found or is already deleted")]
    VolumeGone(String),
    /// No such server.
    #[error("Server {0} not found")]
    ServerMissing(String),
    /// The name of a volume is taken.
    #[error("A volume named {0} already exists")]
    VolumeNameTaken(String),
    /// No such path.
    #[error("The requested path does not exist")]
    NoSuchPath,
    /// No such pool.
    #[error("Pool {0} not found")]
    PoolMissing(String),
    /// No such consistency group.
    #[error("Consistency group {0} not found")]
    GroupMissing(String),
    /// No such snapshot.
    #[error("Snapshot {0} not found")]
    SnapshotMissing(String),
    /// The name of something else is taken.
    #[error("{what} {name} already exists")]
    NameTaken {
        /// What it is.
        what: &'static str,
        /// Its name, or what else must be unique.
        name: String,
    },
    /// The volume is in use.
    #[error("Volume {volume} is attached to {servers}")]
    VolumeAttached {
        /// The volume.
        volume: String,
        /// The servers.
        servers: String,
    },
    /// The server is in use.
    #[error("Server {0} has volumes attached to it")]
    ServerInUse(String),
    /// The volume is not there for the server.
    #[error("Volume {volume} is not attached to {server}")]
    NotAttached {
        /// The volume.
        volume: String,
        /// The server.
        server: String,
    },
    /// The volume has snapshots.
    #[error("Volume {0} has snapshots")]
    HasSnapshots(String),
    /// The pool is full.
    #[error("Pool {pool} has not enough free capacity: {asked} GB asked for, {free} GB free")]
    NoRoom {
        /// The pool.
        pool: String,
        /// What is asked for, in GB.
        asked: u64,
        /// What is there, in GB.
        free: u64,
    },
    /// The pool keeps what it has left.
    #[error("Pool {pool} is in {mode} mode")]
    PoolProtected {
        /// The pool.
        pool: String,
        /// Its mode.
        mode: String,
    },
    /// The object is being changed.
    #[error("{what} is busy: {doing}")]
    Busy {
        /// The object.
        what: String,
        /// What is done with it.
        doing: &'static str,
    },
    /// A parameter is wrong.
    #[error("Invalid parameter {parameter}: {reason}")]
    Invalid {
        /// Which.
        parameter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not finished in the time that the client gave.
    #[error("The request has been submitted, it will be completed in the background")]
    Submitted,
    /// A fault of the control API.
    #[error("{message}")]
    Fault {
        /// The code.
        code: i64,
        /// The sentence.
        message: String,
    },
}

impl Refusal {
    /// A wrong parameter.
    pub fn invalid(parameter: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            parameter: parameter.to_owned(),
            reason: reason.into(),
        }
    }

    /// The code inside the envelope.
    pub fn code(&self) -> i64 {
        match self {
            Self::Credentials => 5,
            Self::VolumeMissing(_) => 10081,
            Self::ServerMissing(_) => 10086,
            Self::VolumeNameTaken(_) => 10096,
            Self::VolumeGone(_) => 10097,
            Self::NoSuchPath => 404,
            Self::Submitted => 1,
            Self::PoolMissing(_) => 20001,
            Self::GroupMissing(_) => 20002,
            Self::SnapshotMissing(_) => 20003,
            Self::NameTaken { .. } => 20004,
            Self::VolumeAttached { .. } => 20005,
            Self::ServerInUse(_) => 20006,
            Self::NotAttached { .. } => 20007,
            Self::HasSnapshots(_) => 20008,
            Self::NoRoom { .. } => 20009,
            Self::PoolProtected { .. } => 20010,
            Self::Busy { .. } => 20011,
            Self::Invalid { .. } => 20012,
            Self::Fault { code, .. } => *code,
        }
    }
}

/// The time, something that nobody can guess, and how long things take.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The time.
    pub now: Millis,
    /// For secrets that are made up.
    pub secret: String,
    /// How long things take.
    pub delays: Delays,
}

/// How long things take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// A new volume.
    pub creation: Millis,
    /// A clone, until it is seen.
    pub clone: Millis,
    /// A snapshot.
    pub snapshot: Millis,
    /// A removal.
    pub removal: Millis,
    /// An expansion.
    pub expansion: Millis,
    /// An attachment.
    pub attachment: Millis,
}
