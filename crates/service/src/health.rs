//! Health: is the process alive, and can it do its work?
//!
//! Liveness has no conditions: a process that answers is alive, and restarting it because a driver or the API server
//! is away would only make things worse. Only a process whose probe belongs to another container, such as a driver's
//! sidecar, answers for that one instead ([`Health::speak_for`]). Readiness is a set of named checks that the parts of a process set
//! themselves. Leadership is never one of them: a replica that waits for the lease is ready to take over, and a
//! Deployment whose second replica is never ready cannot be rolled out.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// The named readiness checks of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<String, Standing>>>,
    other: Arc<OnceLock<Other>>,
}

/// Alive, or one sentence that says why not.
pub type Verdict = Result<(), Arc<str>>;

/// Asks whether another process is alive.
struct Other(Box<dyn Fn() -> Pin<Box<dyn Future<Output = Verdict> + Send>> + Send + Sync>);

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Other")
    }
}

/// How one check stands: ready, or the reason why not.
type Standing = Result<(), String>;

impl Health {
    /// Adds a check, which is not ready until its owner says so. Called twice with one name: the same check, reset.
    pub fn check(&self, name: impl Into<String>) -> Check {
        let check = Check {
            name: name.into(),
            health: self.clone(),
        };
        check.not_ready("starting");
        check
    }

    /// From now on `/healthz` answers for another process, which is asked each time. Called twice: the first one stays.
    pub fn speak_for<F>(&self, ask: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Verdict> + Send + 'static,
    {
        _ = self.other.set(Other(Box::new(move || Box::pin(ask()))));
    }

    /// What `/healthz` answers.
    pub(crate) async fn alive(&self) -> Verdict {
        match self.other.get() {
            Some(Other(ask)) => ask().await,
            None => Ok(()),
        }
    }

    /// What `/readyz` answers.
    pub fn report(&self) -> Report {
        Report {
            checks: self.checks.lock().clone(),
        }
    }
}

/// One readiness check, in the hands of the part of the process that it is about.
#[derive(Clone, Debug)]
pub struct Check {
    name: String,
    health: Health,
}

impl Check {
    /// This part can do its work.
    pub fn ready(&self) {
        self.set(Ok(()));
    }

    /// This part cannot do its work, for a reason that a person can read.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    fn set(&self, standing: Standing) {
        self.health
            .checks
            .lock()
            .insert(self.name.clone(), standing);
    }
}

/// All checks at one moment.
#[derive(Clone, Debug)]
pub struct Report {
    checks: BTreeMap<String, Standing>,
}

impl Report {
    /// True when every check is ready.
    pub fn is_ready(&self) -> bool {
        self.checks.values().all(Result::is_ok)
    }

    /// One line per check, in the form that the API server's `/readyz?verbose` made familiar.
    pub fn verbose(&self) -> String {
        let mut text = String::new();
        for (name, standing) in &self.checks {
            let line = match standing {
                Ok(()) => writeln!(text, "[+] {name}: ready"),
                Err(reason) => writeln!(text, "[-] {name}: {reason}"),
            };
            line.expect("a String takes every write");
        }
        text.push_str(if self.is_ready() {
            "ready\n"
        } else {
            "not ready\n"
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_checks_is_ready() {
        assert!(Health::default().report().is_ready());
    }

    #[test]
    fn a_new_check_holds_readiness_back_until_its_owner_says_ready() {
        let health = Health::default();
        let socket = health.check("socket");
        assert!(!health.report().is_ready());
        socket.ready();
        assert!(health.report().is_ready());
    }

    #[test]
    fn one_check_that_is_not_ready_is_enough_and_is_named_with_its_reason() {
        let health = Health::default();
        health.check("cache").ready();
        health
            .check("driver")
            .not_ready("its socket refuses connections");
        let report = health.report();
        assert!(!report.is_ready());
        assert_eq!(
            report.verbose(),
            "[+] cache: ready\n[-] driver: its socket refuses connections\nnot ready\n"
        );
    }
}
