//! Accounts that are locked because somebody guesses their password.

use std::collections::BTreeMap;

use super::tokens::{Login, WRONG, account};
use super::{Millis, Refusal, State, User};

/// So many wrong passwords in a row lock an account.
const MOST_FAILURES: u32 = 5;

/// How long.
const LOCKED_FOR: Millis = 120_000;

const LOCKED: Refusal =
    Refusal::Unauthenticated("the account is locked for two minutes after five failed logins");

/// Wrong passwords of late, by the user's identity. Forgotten when the cluster's process ends.
#[derive(Debug, Default)]
pub struct Lockouts(BTreeMap<String, Failures>);

#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    locked_until: Millis,
}

impl Lockouts {
    /// Whom these credentials belong to. An account that is locked does not know its own password.
    pub fn log_in(&mut self, state: &State, login: &Login, now: Millis) -> Result<User, Refusal> {
        let user = account(state, login)?;
        let failures = self.0.entry(user.uid.clone()).or_default();
        if now < failures.locked_until {
            return Err(LOCKED);
        }
        if login.is_of(user) {
            self.0.remove(&user.uid);
            return Ok(user.clone());
        }
        failures.in_a_row += 1;
        if failures.in_a_row >= MOST_FAILURES {
            *failures = Failures {
                in_a_row: 0,
                locked_until: now + LOCKED_FOR,
            };
        }
        Err(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weka::state::testing::{MOMENT_NOW, state};

    fn login(password: &str) -> Login {
        let body = serde_json::json!({ "username": "admin", "password": password });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn five_wrong_passwords_lock_an_account_for_two_minutes() {
        let state = state("5.1");
        let mut lockouts = Lockouts::default();
        let mut try_in = |password: &str, later| {
            let known = lockouts.log_in(&state, &login(password), MOMENT_NOW + later);
            known.map(|user| user.username)
        };
        for _ in 0..4 {
            assert_eq!(try_in("wrong", 0), Err(WRONG));
        }
        assert!(try_in("secret", 0).is_ok(), "four are forgiven");
        for _ in 0..5 {
            assert_eq!(try_in("wrong", 1), Err(WRONG));
        }
        assert_eq!(try_in("secret", 2), Err(LOCKED));
        assert_eq!(try_in("secret", LOCKED_FOR), Err(LOCKED));
        assert!(try_in("secret", LOCKED_FOR + 1).is_ok());
    }
}
