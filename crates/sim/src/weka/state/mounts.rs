//! Who may mount what.

use serde::{Deserialize, Serialize};

use super::tokens::Purpose;
use super::{Filesystem, Millis, ROOT, Refusal, State};
use crate::weka::release::{Feature, Release};

/// Mount options that every version knows, with those that take a value.
const FLAGS: &[&str] = &[
    "acl",
    "readcache",
    "writecache",
    "coherent",
    "forcedirect",
    "sync",
    "async",
    "verbose",
    "quiet",
    "obs_direct",
    "dentry_cache",
    "rw",
    "ro",
    "noatime",
    "relatime",
    "strictatime",
    "nosuid",
    "suid",
    "nodev",
    "dev",
    "noexec",
    "exec",
    "nodiratime",
    "inode_bits=auto",
];
const VALUES: &[&str] = &[
    "token",
    "container_name",
    "inode_bits",
    "readahead_kb",
    "dentry_max_age_positive",
    "dentry_max_age_negative",
    "num_cores",
    "file_create_mask",
    "directory_create_mask",
];

/// A mount that a frontend is asked for.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountRequest {
    /// The name of the filesystem.
    pub filesystem: String,
    /// The frontend's container.
    pub container: String,
    /// `-o`, without the token.
    pub options: Vec<String>,
    /// The token.
    pub token: Option<String>,
}

/// A mount that is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The identity of the filesystem.
    pub filesystem: String,
}

/// Decides about a mount; `connected` is whether the frontend is.
pub fn grant(
    state: &State,
    request: &MountRequest,
    connected: bool,
    now: Millis,
) -> Result<Grant, Refusal> {
    let release = &state.cluster().release;
    if !connected {
        return Err(Refusal::Busy {
            what: format!("Container `{}`", request.container),
            doing: "not connected",
        });
    }
    for option in &request.options {
        check_option(option, release)?;
    }
    if request.token.is_some() && !release.has(Feature::MountToken) {
        return Err(unknown_option("token", release));
    }
    let filesystem = match &request.token {
        Some(token) => by_token(state, request, token, now)?,
        None => without_token(state, request)?,
    };
    filesystem.check_ready(now)?;
    Ok(Grant {
        filesystem: filesystem.uid.clone(),
    })
}

/// The token says which of several filesystems of one name is meant, and so its organization.
fn by_token<'a>(
    state: &'a State,
    request: &MountRequest,
    token: &str,
    now: Millis,
) -> Result<&'a Filesystem, Refusal> {
    let invalid = Refusal::Unauthenticated("the mount token is not valid for this filesystem");
    let token = state
        .tokens
        .get(token)
        .filter(|token| now < token.expires_at)
        .ok_or_else(|| invalid.clone())?;
    let Purpose::Mount { filesystem } = &token.purpose else {
        return Err(invalid);
    };
    state
        .filesystems
        .get(filesystem)
        .filter(|f| f.name == request.filesystem)
        .ok_or(invalid)
}

fn without_token<'a>(state: &'a State, request: &MountRequest) -> Result<&'a Filesystem, Refusal> {
    let filesystem = state
        .filesystems
        .values()
        .find(|f| f.name == request.filesystem && f.org_id == ROOT)
        .ok_or_else(|| Refusal::FilesystemMissing(request.filesystem.clone()))?;
    if filesystem.auth_required {
        return Err(Refusal::Unauthenticated(
            "the filesystem requires a mount token",
        ));
    }
    Ok(filesystem)
}

fn check_option(option: &str, release: &Release) -> Result<(), Refusal> {
    let known = match option.split_once('=') {
        _ if FLAGS.contains(&option) => true,
        None => option == "sync_on_close" && release.has(Feature::SyncOnClose),
        Some(("container_name", _)) => release.has(Feature::ContainerName),
        Some((name, _)) => VALUES.contains(&name),
    };
    if known {
        Ok(())
    } else {
        Err(unknown_option(option, release))
    }
}

fn unknown_option(option: &str, release: &Release) -> Refusal {
    let name = option.split('=').next().unwrap_or(option);
    Refusal::Invalid(format!(
        "mount option `{name}` is unknown to release {release}"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::weka::state::testing::{MOMENT_NOW, admin, moment, outsider, state};
    use crate::weka::state::tokens::{self, Expiry};
    use crate::weka::state::{Change, Object};

    fn request(options: &[&str], token: Option<&str>) -> MountRequest {
        MountRequest {
            filesystem: "default".to_owned(),
            container: "client".to_owned(),
            options: options.iter().map(ToString::to_string).collect(),
            token: token.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn options_are_those_of_the_version() {
        let table = [
            ("5.1", "writecache", true),
            ("5.1", "sync_on_close", true),
            ("4.1", "sync_on_close", false),
            ("5.1", "container_name=client", true),
            ("4.1", "container_name=client", false),
            ("5.1", "mountdirect", false),
            ("5.1", "dentry_max_age_positive=0", true),
            ("5.1", "", false),
        ];
        for (release, option, expected) in table {
            let granted = grant(&state(release), &request(&[option], None), true, MOMENT_NOW);
            assert_eq!(granted.is_ok(), expected, "{release} {option}: {granted:?}");
        }
    }

    #[test]
    fn a_token_is_good_for_its_filesystem_and_while_it_is_valid() {
        let mut state = state("5.1");
        let mut guarded = state.filesystems["fs-default"].clone();
        guarded.auth_required = true;
        let mut other = guarded.clone();
        (other.uid, other.name) = ("fs-other".to_owned(), "other".to_owned());
        let expiry = Expiry {
            access: Duration::from_millis(50),
            refresh: Duration::from_secs(1),
        };
        for (filesystem, token) in [(&guarded, "right"), (&other, "wrong")] {
            let changes =
                tokens::issue_mount(filesystem, &admin(), token, expiry, MOMENT_NOW).unwrap();
            for change in changes {
                state.apply(change);
            }
        }
        for filesystem in [guarded, other] {
            state.apply(Change::Put(Object::Filesystem(filesystem)));
        }
        let table = [
            (None, 0, false),
            (Some("right"), 49, true),
            (Some("right"), 50, false),
            (Some("wrong"), 0, false),
            (Some("none"), 0, false),
        ];
        for (token, later, expected) in table {
            let granted = grant(&state, &request(&[], token), true, MOMENT_NOW + later);
            assert_eq!(granted.is_ok(), expected, "{token:?} {later}");
        }
    }

    #[test]
    fn another_organizations_filesystem_needs_a_token_and_a_connected_container() {
        let mut state = state("5.1");
        let mut theirs = state.filesystems["fs-default"].clone();
        theirs.org_id = outsider().org_id;
        let expiry = Expiry {
            access: Duration::from_secs(1),
            refresh: Duration::from_secs(1),
        };
        let changes =
            tokens::issue_mount(&theirs, &outsider(), "token", expiry, moment().now).unwrap();
        for change in changes {
            state.apply(change);
        }
        state.apply(Change::Put(Object::Filesystem(theirs)));
        let granted =
            |token, connected| grant(&state, &request(&[], token), connected, MOMENT_NOW).is_ok();
        assert!(!granted(None, true));
        assert!(granted(Some("token"), true));
        assert!(!granted(Some("token"), false));
    }
}
