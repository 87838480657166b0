//! Tokens: who somebody is, and what may be mounted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Change, Filesystem, Kind, Millis, Object, ROOT, Refusal, State, Token, User};
use crate::weka::release::Feature;

/// What a token is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Calls of the REST API.
    Access,
    /// New access tokens.
    Refresh,
    /// Mounting one filesystem.
    Mount {
        /// Which.
        filesystem: String,
    },
}

/// How long tokens are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Access and mount tokens.
    pub access: Duration,
    /// Refresh tokens.
    pub refresh: Duration,
}

/// What a successful login brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// For calls.
    pub access: String,
    /// For the next pair.
    pub refresh: String,
}

/// The body of `POST login`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    username: String,
    password: String,
    #[serde(default = "root_name")]
    org: String,
}

fn root_name() -> String {
    "Root".to_owned()
}

impl Login {
    /// Whether the password is the user's.
    pub fn is_of(&self, user: &User) -> bool {
        self.password == user.password
    }
}

/// There is no such account, or its password is another one: nobody is told which.
pub const WRONG: Refusal = Refusal::Unauthenticated("username, password or organization is wrong");
const EXPIRED: Refusal = Refusal::Unauthenticated("the token is not valid or has expired");

/// The account that somebody wants to use.
pub fn account<'a>(state: &'a State, login: &Login) -> Result<&'a User, Refusal> {
    let organization = state
        .organizations
        .values()
        .find(|o| o.name == login.org)
        .ok_or(WRONG)?;
    if organization.id != ROOT && !state.cluster().release.has(Feature::Organizations) {
        return Err(WRONG);
    }
    let mut users = state.users.values();
    users
        .find(|u| u.org_id == organization.id && u.username == login.username)
        .ok_or(WRONG)
}

/// Who shows this access token.
pub fn authenticate<'a>(
    state: &'a State,
    text: Option<&str>,
    now: Millis,
) -> Result<&'a User, Refusal> {
    let text = text.ok_or(Refusal::Unauthenticated("no token was given"))?;
    holder(state, text, &Purpose::Access, now)
}

/// Who shows this refresh token.
pub fn refresh<'a>(state: &'a State, text: &str, now: Millis) -> Result<&'a User, Refusal> {
    holder(state, text, &Purpose::Refresh, now)
}

/// A new pair for a user.
pub fn issue(user: &User, pair: &Pair, expiry: Expiry, now: Millis) -> Vec<Change> {
    let token = |text: &str, purpose, valid| {
        put(Token {
            text: text.to_owned(),
            purpose,
            user: user.uid.clone(),
            expires_at: after(now, valid),
        })
    };
    vec![
        token(&pair.access, Purpose::Access, expiry.access),
        token(&pair.refresh, Purpose::Refresh, expiry.refresh),
    ]
}

/// A mount token: good for one filesystem, and so for one organization.
pub fn issue_mount(
    filesystem: &Filesystem,
    user: &User,
    text: &str,
    expiry: Expiry,
    now: Millis,
) -> Result<Vec<Change>, Refusal> {
    filesystem.check_ready(now)?;
    Ok(vec![put(Token {
        text: text.to_owned(),
        purpose: Purpose::Mount {
            filesystem: filesystem.uid.clone(),
        },
        user: user.uid.clone(),
        expires_at: after(now, expiry.access),
    })])
}

/// Every access token, and every refresh token if asked to, is void from now on.
pub fn revoke(state: &State, also_refresh: bool) -> Vec<Change> {
    state
        .tokens
        .values()
        .filter(|token| match token.purpose {
            Purpose::Access => true,
            Purpose::Refresh => also_refresh,
            Purpose::Mount { .. } => false,
        })
        .map(|token| Change::Remove {
            kind: Kind::Token,
            key: token.text.clone(),
        })
        .collect()
}

fn holder<'a>(
    state: &'a State,
    text: &str,
    purpose: &Purpose,
    now: Millis,
) -> Result<&'a User, Refusal> {
    let token = state
        .tokens
        .get(text)
        .filter(|token| token.purpose == *purpose && now < token.expires_at)
        .ok_or(EXPIRED)?;
    state.users.get(&token.user).ok_or(EXPIRED)
}

fn put(token: Token) -> Change {
    Change::Put(Object::Token(token))
}

fn after(now: Millis, valid: Duration) -> Millis {
    now.saturating_add(u64::try_from(valid.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weka::state::testing::{MOMENT_NOW, admin, state};

    fn login(username: &str, password: &str, org: &str) -> Login {
        Login {
            username: username.to_owned(),
            password: password.to_owned(),
            org: org.to_owned(),
        }
    }

    #[test]
    fn logins_are_by_organization_from_3_14_on() {
        let table = [
            ("5.1", "admin", "secret", "Root", true),
            ("5.1", "admin", "wrong", "Root", false),
            ("5.1", "admin", "secret", "tenant", false),
            ("5.1", "outsider", "secret", "tenant", true),
            ("3.13", "outsider", "secret", "tenant", false),
            ("3.13", "admin", "secret", "Root", true),
            ("5.1", "admin", "secret", "nowhere", false),
        ];
        for (release, user, password, org, expected) in table {
            let (state, login) = (state(release), login(user, password, org));
            let known = account(&state, &login).is_ok_and(|user| login.is_of(user));
            assert_eq!(known, expected, "{release} {user} {org}");
        }
    }

    #[test]
    fn a_token_is_good_for_its_purpose_until_it_expires_or_is_revoked() {
        let mut state = state("5.1");
        let pair = Pair {
            access: "access".to_owned(),
            refresh: "refresh".to_owned(),
        };
        let expiry = Expiry {
            access: Duration::from_millis(10),
            refresh: Duration::from_millis(20),
        };
        for change in issue(&admin(), &pair, expiry, MOMENT_NOW) {
            state.apply(change);
        }
        let known =
            |state: &State, token, later| authenticate(state, token, MOMENT_NOW + later).is_ok();
        assert!(known(&state, Some("access"), 9));
        assert!(!known(&state, Some("access"), 10));
        assert!(!known(&state, Some("refresh"), 0));
        assert!(!known(&state, None, 0));
        assert!(refresh(&state, "refresh", MOMENT_NOW + 19).is_ok());
        assert!(refresh(&state, "access", MOMENT_NOW).is_err());

        for change in revoke(&state, false) {
            state.apply(change);
        }
        assert!(!known(&state, Some("access"), 0));
        assert!(refresh(&state, "refresh", MOMENT_NOW).is_ok());
        for change in revoke(&state, true) {
            state.apply(change);
        }
        assert!(refresh(&state, "refresh", MOMENT_NOW).is_err());
    }
}
