//! State, journal, files and knobs together: what every request works on.

mod quotas;
mod setup;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Options;
use super::backing::Backing;
use super::control::frontends::Frontends;
use super::release::Release;
use super::state::filesystems::{Delays, Moment};
use super::state::lockout::Lockouts;
use super::state::tokens::Expiry;
use super::state::{Change, Filesystem, Kind, Millis, Object, Refusal, State};
use crate::control::Controls;
use crate::faults::Trouble;
use crate::moment::{fresh_secret, millis, now};
use crate::store::{Machine, StoreError};

/// What every request works on.
#[derive(Debug)]
pub struct Core {
    options: Options,
    machine: Machine<State>,
    /// What is turned, what goes wrong, what was asked.
    pub controls: Controls<Knobs, Trouble>,
    quota_locks: quotas::Locks,
    /// Where files are.
    pub backing: Backing,
    /// The frontends that reported.
    pub frontends: Frontends,
    /// Accounts that are locked.
    pub lockouts: Mutex<Lockouts>,
    /// When somebody last changed who may mount by NFS.
    nfs_changed: AtomicU64,
}

/// What can be turned while the cluster runs; times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knobs {
    /// Objects per page of a list.
    pub page_size: usize,
    /// How long access and mount tokens are valid.
    pub access_token_expiry: Millis,
    /// How long refresh tokens are valid.
    pub refresh_token_expiry: Millis,
    /// How long a new filesystem is being created.
    pub creation_delay: Millis,
    /// How long things are being removed.
    pub removal_delay: Millis,
    /// How long a new quota is ADDING.
    pub quota_delay: Millis,
    /// How long servers take to know who may mount by NFS.
    #[serde(default)]
    pub nfs_delay: Millis,
    /// Whether new quotas end in status ERROR.
    pub quota_error: bool,
    /// Whether setting a quota answers with another inode than asked for, as some versions do.
    pub wrong_quota_inode: bool,
    /// What the cluster says instead of its version, however odd.
    #[serde(default)]
    pub odd_release: Option<String>,
    /// How long every request takes at least.
    pub latency: Millis,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The cluster says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The simulator itself cannot go on.
    #[error("the simulator's data directory: {0}")]
    Storage(#[from] io::Error),
}

impl Core {
    /// Opens the data directory; makes the cluster that it does not have yet.
    pub async fn open(options: &Options) -> Result<Self, StoreError> {
        let core = Self {
            machine: Machine::open(&options.data).await?,
            controls: Controls::new(Knobs::from(options)),
            quota_locks: quotas::Locks::default(),
            backing: Backing::new(&options.data),
            frontends: Frontends::default(),
            lockouts: Mutex::default(),
            nfs_changed: AtomicU64::new(0),
            options: options.clone(),
        };
        setup::complete(&core, options)?;
        Ok(core)
    }

    /// Forgets everything but the data directory, and reads that again.
    pub async fn reload(&self) -> Result<(), StoreError> {
        self.machine.reload().await
    }

    /// Refuses to become a version that could not be reached any more by those who use the cluster.
    pub fn check_transport(&self, is_secure: bool, release: &Release) -> Result<(), Refusal> {
        if is_secure || !self.options.is_secure(release) {
            return Ok(());
        }
        Err(Refusal::PlainHttp(release.clone()))
    }

    /// Looks at the state.
    pub fn read<T>(&self, look: impl FnOnce(&State, Millis) -> T) -> T {
        self.machine.read(|state| look(state, now()))
    }

    /// Wakes up whenever the state changes.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.machine.watch()
    }

    /// Somebody changed who may mount by NFS.
    pub fn change_nfs(&self) {
        self.nfs_changed.store(now(), Ordering::Relaxed);
    }

    /// Whether all servers know who may mount by NFS.
    pub fn is_nfs_settled(&self) -> bool {
        let changed = self.nfs_changed.load(Ordering::Relaxed);
        now() >= changed + self.knobs().nfs_delay
    }

    /// Decides, makes the changes, and returns when they are durable.
    pub async fn change<T>(
        &self,
        decide: impl FnOnce(&State, &Moment) -> Result<(Vec<Change>, T), Refusal>,
    ) -> Result<T, Failure> {
        let moment = self.moment();
        self.machine.change(|state| decide(state, &moment)).await
    }

    /// Makes changes that need no decision.
    pub async fn put(&self, changes: Vec<Change>) -> Result<(), Failure> {
        self.change(|_, _| Ok((changes, ()))).await
    }

    /// What is being created or added is there from now on. Called twice: it is.
    pub async fn finish(&self) -> Result<(), Failure> {
        self.change(|state, moment| {
            let all = state.filesystems.values().cloned();
            let creating = all.filter(|filesystem| filesystem.ready_at > moment.now);
            let ready = creating.map(|filesystem| {
                Change::Put(Object::Filesystem(Filesystem {
                    ready_at: moment.now,
                    ..filesystem
                }))
            });
            Ok((ready.collect(), ()))
        })
        .await?;
        self.finish_quotas().await
    }

    /// Lets go of what is done with being removed.
    pub async fn sweep(&self) -> Result<(), Failure> {
        let (outdated, snapshots) = self.read(|state, now| {
            let outdated = state.outdated(now);
            let snapshots: Vec<_> = outdated
                .iter()
                .filter_map(|change| match change {
                    Change::Remove {
                        kind: Kind::Snapshot,
                        key,
                    } => state.snapshots.get(key).cloned(),
                    _ => None,
                })
                .collect();
            (outdated, snapshots)
        });
        if outdated.is_empty() {
            return Ok(());
        }
        // Files first: what the state has forgotten nobody would look for again.
        for snapshot in snapshots {
            self.backing
                .remove_snapshot(&snapshot.filesystem, &snapshot.access_point)?;
        }
        for change in &outdated {
            match change {
                Change::Remove {
                    kind: Kind::Filesystem,
                    key,
                } => self.backing.remove(key)?,
                Change::Remove {
                    kind: Kind::Quota,
                    key,
                } => self.drop_ledger(key)?,
                _ => {}
            }
        }
        self.put(outdated).await
    }

    /// The time, a fresh identity and how long things take.
    pub fn moment(&self) -> Moment {
        let knobs = self.knobs();
        Moment {
            now: now(),
            uid: fresh_uid(),
            delays: Delays {
                creation: knobs.creation_delay,
                removal: knobs.removal_delay,
                quota: (!knobs.quota_error).then_some(knobs.quota_delay),
            },
        }
    }

    /// How long tokens are valid.
    pub fn expiry(&self) -> Expiry {
        let knobs = self.knobs();
        Expiry {
            access: Duration::from_millis(knobs.access_token_expiry),
            refresh: Duration::from_millis(knobs.refresh_token_expiry),
        }
    }

    /// How the knobs are now.
    pub fn knobs(&self) -> Knobs {
        self.controls.knobs()
    }
}

impl From<&Options> for Knobs {
    fn from(options: &Options) -> Self {
        Self {
            page_size: options.page_size,
            access_token_expiry: millis(options.access_token_expiry),
            refresh_token_expiry: millis(options.refresh_token_expiry),
            creation_delay: millis(options.creation_delay),
            removal_delay: millis(options.removal_delay),
            quota_delay: millis(options.quota_delay),
            nfs_delay: millis(options.nfs_delay),
            quota_error: false,
            wrong_quota_inode: false,
            odd_release: None,
            latency: 0,
        }
    }
}

/// An identity that nothing has yet, as Weka writes them.
pub fn fresh_uid() -> String {
    let text = fresh_secret(16);
    format!(
        "{}-{}-{}-{}-{}",
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..]
    )
}
