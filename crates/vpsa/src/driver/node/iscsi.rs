//! Sessions with arrays, through `iscsiadm` (open-iscsi).
//!
//! A node has one session with each portal of an array for all disks it has there; it is made with the first and ended with the
//! last. The secret is written into the file in which open-iscsi keeps its settings: a command line is visible to everybody.

mod error;
mod record;
pub mod session;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use secrecy::{ExposeSecret as _, SecretString};
use stowage_api::causes::chain;
use stowage_host::exec::{Exec, Invocation, Tool};

pub use self::error::IscsiError;
use self::session::Session;
use super::targets::Targets;
use crate::driver::publication::Iscsi;

const ISCSIADM: Tool = Tool {
    name: "iscsiadm",
    package: "open-iscsi",
};

/// Exit codes of `iscsiadm`.
const SESSION_EXISTS: i32 = 15;
const NOT_FOUND: i32 = 21;
const AUTHENTICATION: i32 = 24;
const BUSY: i32 = 28;

/// For how many seconds a lost session holds up what is written, where there is another path.
const OTHER_PATH_AFTER: u32 = 5;

/// At how many of its portals a node logs in to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// At the first that lets it in: nobody joins several.
    One,
    /// At every one.
    All,
}

/// Sessions with arrays.
pub struct Initiator {
    /// Runs `iscsiadm`.
    pub exec: Arc<dyn Exec>,
    /// Where open-iscsi keeps its settings.
    pub records: PathBuf,
    /// Who works with which target.
    pub targets: Targets,
}

impl Initiator {
    /// Logs in where that is needed; how many sessions there are then. A portal that does not let us in is no error if another
    /// does. Called twice: it is done.
    pub async fn log_in(
        &self,
        disk: &Iscsi,
        secret: &SecretString,
        paths: Paths,
    ) -> Result<usize, IscsiError> {
        let there = self.sessions().await?;
        let has = |wanted: &Session| {
            let is_it = |it: &Session| it.target == wanted.target && it.portal == wanted.portal;
            there.iter().any(is_it)
        };
        let portals = disk.portals.iter();
        let wanted = portals.map(|portal| Session::new(&disk.target, portal));
        let (there, missing): (Vec<Session>, Vec<Session>) = wanted.partition(has);
        let mut sessions = there.len();
        let mut failures = Vec::new();
        match paths {
            Paths::All => {
                let settings = || settings(disk, secret, disk.portals.len() > 1);
                let logins = missing.iter().map(|it| self.log_in_at(it, settings()));
                for done in join_all(logins).await {
                    sessions += usize::from(done.is_ok());
                    failures.extend(done.err());
                }
            }
            Paths::One => {
                for session in &missing {
                    if sessions > 0 {
                        break;
                    }
                    let done = self.log_in_at(session, settings(disk, secret, false)).await;
                    sessions += usize::from(done.is_ok());
                    failures.extend(done.err());
                }
            }
        }
        if sessions == 0 {
            return Err(IscsiError::of_portals(&disk.target, failures));
        }
        for error in failures {
            tracing::warn!(error = chain(&error), "A path to a VPSA is missing.");
        }
        Ok(sessions)
    }

    async fn log_in_at(
        &self,
        session: &Session,
        settings: record::Settings,
    ) -> Result<(), IscsiError> {
        let Session {
            target,
            portal,
            interface,
        } = session;
        let new = ["-m", "iface", "-I", interface, "-o", "new"];
        self.run("make an interface", portal, &new, &[SESSION_EXISTS, BUSY])
            .await?;
        let place = ["-m", "node", "-T", target, "-p", portal, "-I", interface];
        let new = [&place[..], &["-o", "new"]].concat();
        self.run("describe the session", portal, &new, &[]).await?;
        let written = record::write(&self.records, session, settings).await;
        written.map_err(|source| IscsiError::Record {
            target: target.clone(),
            path: self.records.clone(),
            source,
        })?;
        let login = [&place[..], &["--login"]].concat();
        self.run("log in", portal, &login, &[SESSION_EXISTS]).await
    }

    /// Notices disks that are new, larger, or gone.
    pub async fn rescan(&self, target: &str) -> Result<(), IscsiError> {
        let words = ["-m", "node", "-T", target, "--rescan"];
        self.run("look for disks", target, &words, &[]).await
    }

    /// Ends our sessions with a target, and forgets their settings. Called twice: there are none.
    pub async fn log_out(&self, target: &str) -> Result<(), IscsiError> {
        for session in self.ours().await? {
            let (portal, interface) = (&session.portal, &session.interface);
            if session.target != target {
                continue;
            }
            let place = ["-m", "node", "-T", target, "-p", portal, "-I", interface];
            for words in [&["--logout"][..], &["-o", "delete"]] {
                let words = [&place[..], words].concat();
                self.run("log out", portal, &words, &[NOT_FOUND]).await?;
            }
            let delete = ["-m", "iface", "-I", interface, "-o", "delete"];
            if let Err(error) = self.run("let go", portal, &delete, &[NOT_FOUND]).await {
                tracing::info!(error = chain(&error), interface, "An interface stays.");
            }
        }
        Ok(())
    }

    /// The targets that we have sessions with, or settings of.
    pub async fn targets(&self) -> Result<BTreeSet<String>, IscsiError> {
        let ours = self.ours().await?;
        Ok(ours.into_iter().map(|session| session.target).collect())
    }

    /// Our sessions, and those that there are only settings of.
    async fn ours(&self) -> Result<BTreeSet<Session>, IscsiError> {
        let sessions = self.sessions().await?.into_iter();
        let recorded = record::all(&self.records).await;
        let all = sessions.chain(recorded);
        Ok(all.filter(Session::is_ours).collect())
    }

    /// Whether all sessions with a target were begun under this name, as far as that is known. Disks have other numbers under
    /// another.
    pub async fn check_name(&self, target: &str, wanted: &str) -> Result<(), IscsiError> {
        let printed = self.printed().await?;
        let names = session::initiators(&printed, target);
        let is_other = |name: &&&str| !name.eq_ignore_ascii_case(wanted);
        match names.iter().find(is_other) {
            None => Ok(()),
            Some(name) => Err(IscsiError::OtherName {
                target: target.to_owned(),
                wanted: wanted.to_owned(),
                found: (*name).to_owned(),
            }),
        }
    }

    /// All sessions, whosever they are.
    async fn sessions(&self) -> Result<Vec<Session>, IscsiError> {
        Ok(session::parse(&self.printed().await?))
    }

    /// All sessions, as they are printed.
    async fn printed(&self) -> Result<String, IscsiError> {
        let invocation = Invocation::new(ISCSIADM).args(["-m", "session", "-P", "1"]);
        let failed = |source| IscsiError::Tool {
            doing: "list sessions",
            target: "any target".to_owned(),
            source,
        };
        let output = self.exec.run(invocation).await.map_err(failed)?;
        if output.code() == Some(NOT_FOUND) {
            return Ok(String::new());
        }
        let output = output.checked().map_err(failed)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Exit codes in `fine` mean that it is so already.
    async fn run(
        &self,
        doing: &'static str,
        place: &str,
        words: &[&str],
        fine: &[i32],
    ) -> Result<(), IscsiError> {
        let failed = |source| IscsiError::Tool {
            doing,
            target: place.to_owned(),
            source,
        };
        let output = self.exec.run(Invocation::new(ISCSIADM).args(words)).await;
        let output = output.map_err(failed)?;
        match output.code() {
            Some(AUTHENTICATION) => Err(IscsiError::Authentication(place.to_owned())),
            Some(code) if fine.contains(&code) => Ok(()),
            _ => output.checked().map(drop).map_err(failed),
        }
    }
}

/// What the record of a session says. With another path nobody waits for long on this one.
fn settings(disk: &Iscsi, secret: &SecretString, several: bool) -> record::Settings {
    let mut settings = vec![
        // Not at boot, as hosts may have it for whatever they know: who needs a disk logs in.
        ("node.startup", "manual".to_owned()),
        ("node.session.auth.authmethod", "CHAP".to_owned()),
        ("node.session.auth.username", disk.chap_user.clone()),
        (
            "node.session.auth.password",
            secret.expose_secret().to_owned(),
        ),
    ];
    if several {
        settings.extend([
            (
                "node.session.timeo.replacement_timeout",
                OTHER_PATH_AFTER.to_string(),
            ),
            ("node.session.initial_login_retry_max", "1".to_owned()),
        ]);
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(portals: &[&str]) -> Iscsi {
        Iscsi {
            array: "a".to_owned(),
            portals: portals.iter().map(|it| (*it).to_owned()).collect(),
            target: "iqn.a".to_owned(),
            lun: 0,
            chap_user: "user".to_owned(),
            chap_secret: String::new().into(),
        }
    }

    #[test]
    fn a_single_path_keeps_the_hosts_patience_and_one_of_several_does_not() {
        let secret = SecretString::from("secret");
        let names = |several| {
            let settings = settings(&disk(&["10.0.0.1"]), &secret, several).into_iter();
            settings.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(false).len(), 4);
        assert!(names(false).contains(&"node.startup"));
        assert!(names(true).contains(&"node.session.timeo.replacement_timeout"));
    }

    #[test]
    fn every_portal_says_why_it_does_not_let_us_in() {
        let refused = || IscsiError::Authentication("iqn.a".to_owned());
        let other = || IscsiError::Record {
            target: "iqn.a".to_owned(),
            path: "/nowhere".into(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        assert!(matches!(
            IscsiError::of_portals("iqn.a", vec![refused(), refused()]),
            IscsiError::Authentication(_)
        ));
        assert!(matches!(
            IscsiError::of_portals("iqn.a", vec![other()]),
            IscsiError::Record { .. }
        ));
        let both = IscsiError::of_portals("iqn.a", vec![refused(), other()]).to_string();
        assert!(
            both.contains("any portal of iqn.a: the VPSA refuses")
                && both.contains("; cannot write the settings"),
            "{both}"
        );
    }
}
