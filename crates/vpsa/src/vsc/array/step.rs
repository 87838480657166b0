//! What is to be done next for a VPSA. Nothing here does anything.

use std::net::{IpAddr, SocketAddr};

use stowage_api::vpsa::VpsaState;

use super::facts::Facts;
use crate::rest::ApiError;
use crate::version::{OLDEST, Version};
use crate::vsc::condition::Reason;

/// What people want.
#[derive(Clone, Copy, Debug)]
pub struct Desired<'a> {
    /// The object is to go.
    pub deleting: bool,
    /// The class it names, if there is one: its pool, if it names one.
    pub class: Option<Option<&'a str>>,
    /// The name of that class.
    pub class_name: &'a str,
    /// Where its disks are reached, if people say so.
    pub portals: &'a [String],
    /// What is there already is to be imported.
    pub import: bool,
}

/// What is so.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The object is held until we have let go.
    pub held: bool,
    /// Its token stands somewhere in plain text.
    pub plain_token: bool,
    /// What was last said of it.
    pub recorded: Option<&'a VpsaState>,
    /// Volumes and snapshots of ours that are on it.
    pub users: usize,
    /// What the array says, if it was asked.
    pub array: Option<Result<&'a Facts, &'a Trouble>>,
    /// All that the array was asked about is imported.
    pub imported: bool,
}

/// Why an array cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The object does not say how.
    #[error("{0}")]
    Description(String),
    /// Who answers is another array than the one that our volumes are on.
    #[error(
        "the array at `hostname` is {now}, and the volumes of this VPSA are on {known}: correct `hostname`; nothing is done on the other array"
    )]
    Another {
        /// Who it was.
        known: String,
        /// Who it is.
        now: String,
    },
    /// Another object has this array already.
    #[error("VPSA `{other}` is the same array ({identity}): delete one of the two")]
    Taken {
        /// The other object.
        other: String,
        /// Who it is.
        identity: String,
    },
    /// The array.
    #[error(transparent)]
    Call(#[from] ApiError),
}

impl Trouble {
    fn word(&self) -> &'static str {
        match self {
            Self::Description(_) => "InvalidSpec",
            Self::Another { .. } => "AnotherArray",
            Self::Taken { .. } => "SameArray",
            Self::Call(error) => match error {
                ApiError::Credentials { .. } | ApiError::AccessKey => "Credentials",
                ApiError::Untrusted { .. } | ApiError::Trust(_) | ApiError::Scheme { .. } => {
                    "Certificate"
                }
                ApiError::Malformed { .. } => "AnswerNotUnderstood",
                ApiError::Unreachable { .. }
                | ApiError::Silent { .. }
                | ApiError::Unavailable { .. }
                | ApiError::Deadline { .. }
                | ApiError::Refused { .. } => "NoAnswer",
            },
        }
    }

    /// How an array is that has it.
    fn state(&self) -> VpsaState {
        match self {
            Self::Another { .. } | Self::Taken { .. } => VpsaState::Incompatible,
            Self::Description(_) | Self::Call(_) => VpsaState::Unreachable,
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold the object until we have let go.
    Hold,
    /// Encrypt the token.
    Conceal,
    /// Ask the array.
    Ask,
    /// Import what is there.
    Import,
    /// Say how it is.
    Record(VpsaState, Reason),
    /// Let the object go.
    LetGo,
    /// Nothing.
    Rest,
}

/// What is to be done next. [`Step::Record`] is the last: whoever has recorded it rests.
pub fn next_step(desired: &Desired<'_>, observed: &Observed<'_>) -> Step {
    if desired.deleting {
        return leave(observed);
    }
    if !observed.held {
        return Step::Hold;
    }
    if observed.plain_token {
        return Step::Conceal;
    }
    if observed.recorded.is_none() {
        let reason = Reason::not_ready("Configuring", "the array is being checked");
        return Step::Record(VpsaState::Configuring, reason);
    }
    let Some(array) = observed.array else {
        return Step::Ask;
    };
    let facts = match array {
        Ok(facts) => facts,
        Err(trouble) => {
            let reason = Reason::not_ready(trouble.word(), trouble.to_string());
            return Step::Record(trouble.state(), reason);
        }
    };
    if let Some((state, reason)) = misfit(desired, facts) {
        return Step::Record(state, reason);
    }
    if desired.import && !observed.imported {
        if let Some(VpsaState::Importing | VpsaState::Ready) = observed.recorded {
            return Step::Import;
        }
        let reason = Reason::not_ready("Importing", "volumes and snapshots are being recorded");
        return Step::Record(VpsaState::Importing, reason);
    }
    Step::Record(
        VpsaState::Ready,
        Reason::ready("Ready", "volumes can be made"),
    )
}

fn leave(observed: &Observed<'_>) -> Step {
    if !observed.held {
        return Step::Rest;
    }
    if observed.users > 0 {
        // Those who leave it are let through to it once it has answered.
        if observed.array.is_none() {
            return Step::Ask;
        }
        let message = format!(
            "{} volumes and snapshots are on it: delete them, and it goes",
            observed.users
        );
        return Step::Record(VpsaState::Deleting, Reason::not_ready("InUse", message));
    }
    Step::LetGo
}

/// Why an array that answers cannot be used.
fn misfit(desired: &Desired<'_>, facts: &Facts) -> Option<(VpsaState, Reason)> {
    let incompatible = |word, message: String| {
        let reason = Reason::not_ready(word, message);
        Some((VpsaState::Incompatible, reason))
    };
    let Some(controller) = &facts.controller else {
        let reason = Reason::not_ready("NoController", "none of its controllers is active");
        return Some((VpsaState::Failed, reason));
    };
    match controller.software_ver.parse::<Version>() {
        Err(error) => return incompatible("Version", error.to_string()),
        Ok(version) if !version.is_supported() => {
            let (year, month, service_pack) = OLDEST;
            let message = format!(
                "version {version} is too old: the driver needs {year}.{month}-sp{service_pack} or newer"
            );
            return incompatible("Version", message);
        }
        Ok(_) => {}
    }
    let Some(pool) = desired.class else {
        let message = format!(
            "VSCStorageClass `{}` does not exist: create it, or name another",
            desired.class_name
        );
        return Some((
            VpsaState::Configuring,
            Reason::not_ready("NoClass", message),
        ));
    };
    if let Err(reason) = facts.pool(pool) {
        return incompatible("Pools", reason);
    }
    if let Some(portal) = desired.portals.iter().find(|portal| !is_portal(portal)) {
        let message =
            format!("`portals`: `{portal}` must be an IP address, with or without a port");
        return incompatible("InvalidSpec", message);
    }
    if !facts.failed.is_empty() {
        let reason = Reason::not_ready("Unhealthy", facts.failed.join("; "));
        return Some((VpsaState::Failed, reason));
    }
    None
}

fn is_portal(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
}

#[cfg(test)]
mod tests;
