//! The directories of a filesystem, and the steps of each: quota first, then the attribute that it replaces. A run that dies in
//! between is finished by the next one.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, fstat, fstatvfs};
use stowage_host::PathError;
use stowage_host::beneath::{Links, Root};
use tokio::time::{MissedTickBehavior, interval_at};

use super::decide::{Decision, Step, decide};
use super::entries::{Entry, capacity, entries, open};
use super::report::Report;
use crate::driver::directory::Capacity;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::mounts::Mounts;
use crate::error::{Error, chain};
use crate::options::Options;
use crate::quota::Limits;
use crate::rest::error::AccessError;
use crate::rest::wire::Quota;
use crate::rest::{Api, ApiError, Deadline};

/// How long one look at the filesystem or one question to the cluster may take.
const CALL_TIME: Duration = Duration::from_secs(60);

/// How often a volume may be changed by somebody else while it is being migrated.
const MOST_CHANGES: usize = 5;

/// The directories of a filesystem.
pub(super) struct Volumes {
    pub(super) mounts: Arc<Mounts>,
    pub(super) filesystem: WekaFilesystem,
    pub(super) managed: Managed,
    pub(super) options: Options,
    /// From the root of the filesystem.
    pub(super) directory: PathBuf,
    pub(super) is_dry: bool,
    pub(super) quota_timeout: Duration,
    pub(super) progress_interval: Duration,
}

/// What became of a directory.
pub(super) enum Outcome {
    Migrated,
    Skipped,
    Failed(String),
    /// It was deleted meanwhile.
    Gone,
}

/// A directory as it was found.
struct Found {
    inode: u64,
    capacity: Capacity,
}

/// What became of the attribute.
enum Removal {
    Done,
    /// Somebody has written another size, or made another directory.
    Changed,
    Refused(Error),
}

impl Volumes {
    /// Mounts the filesystem. Returns whether it can only be read.
    pub(super) async fn mount(&self) -> Result<bool, Error> {
        let look = |root: &Root| {
            let found = fstatvfs(root).map_err(PathError::at("examine", "the filesystem"))?;
            Ok(found.f_flag.contains(StatVfsMountFlags::RDONLY))
        };
        self.within(look).await
    }

    /// What is in the directory of volumes, if it exists. What begins with a dot is Weka's own.
    pub(super) async fn list(&self) -> Result<Option<Vec<Entry>>, Error> {
        let path = self.directory.clone();
        let look = move |root: &Root| match root.open_directory(&path, Links::Refused) {
            Ok(directory) => {
                let stat = fstat(&directory).map_err(PathError::at("examine", &path))?;
                Ok(Some((stat.st_ino, entries(&directory, &path)?)))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        };
        let Some((inode, entries)) = self.within(look).await? else {
            self.filesystem.confirm_missing(&self.directory).await?;
            return Ok(None);
        };
        if self.is_on_cluster(&self.directory, inode).await? {
            Ok(Some(entries))
        } else {
            Err(self.managed.other_cluster())
        }
    }

    /// Migrates one volume.
    ///
    /// Called twice: it is skipped. Called again after it died: what was begun is finished.
    pub(super) async fn migrate(
        &self,
        name: &str,
        report: &mut Report<'_>,
    ) -> Result<Outcome, Error> {
        for _ in 0..MOST_CHANGES {
            let Some(found) = self.look(name).await? else {
                return Ok(Outcome::Gone);
            };
            let filesystem = &self.managed.filesystem;
            let quota = self.api().quota(filesystem, found.inode).await?;
            let decision = decide(&found.capacity, quota.as_ref());
            report.debug(&format!(
                "Directory {name}: inode {}, recorded capacity {:?}, quota {:?}, so {:?}",
                found.inode,
                found.capacity,
                quota.as_ref().map(Quota::limits),
                decision.step
            ));
            if let Some(warning) = &decision.warning {
                report.warn(&format!("Directory {name}: {warning}"));
            }
            match &decision.step {
                Step::Skip => return Ok(Outcome::Skipped),
                Step::Refuse(refusal) => return Ok(Outcome::Failed(refusal.to_string())),
                step if self.is_dry => {
                    let bytes = decision.bytes;
                    report.info(&match step {
                        Step::Keep => {
                            format!("Would keep quota of {bytes} bytes for directory {name}")
                        }
                        _ => format!("Would create quota of {bytes} bytes for directory {name}"),
                    });
                    return Ok(Outcome::Migrated);
                }
                _ => {}
            }
            match self.enforce(name, &found, &decision, report).await {
                Ok(true) => {}
                Ok(false) => return Ok(Outcome::Gone),
                Err(error) => return self.explain(error).await.map(Outcome::Failed),
            }
            match self.remove_attribute(name, found).await? {
                Removal::Changed => {}
                Removal::Done => return Ok(Outcome::Migrated),
                Removal::Refused(error) => {
                    report.warn(&format!(
                        "Directory {name} has its quota, but {}",
                        chain(&error)
                    ));
                    return Ok(Outcome::Migrated);
                }
            }
        }
        let reason = "somebody changes its capacity all the time: run the migration again";
        Ok(Outcome::Failed(reason.to_owned()))
    }

    /// Makes sure that the directory has its quota, and that the cluster enforces it. False if the directory was deleted.
    async fn enforce(
        &self,
        name: &str,
        found: &Found,
        decision: &Decision,
        report: &mut Report<'_>,
    ) -> Result<bool, Error> {
        let bytes = decision.bytes;
        let limits = match &decision.step {
            Step::Set(limits) => Some(*limits),
            Step::Await => None,
            Step::Keep | Step::Skip | Step::Refuse(_) => {
                report.info(&format!(
                    "Quota of {bytes} bytes is already set for directory {name}"
                ));
                return Ok(true);
            }
        };
        if !self
            .is_on_cluster(&self.directory.join(name), found.inode)
            .await?
        {
            return Ok(false);
        }
        report.info(&format!(
            "Creating quota of {bytes} bytes for directory {name}"
        ));
        self.set_patiently(name, found.inode, limits, report)
            .await?;
        report.info(&format!("Quota was successfully set for directory {name}"));
        let quota = self
            .api()
            .quota(&self.managed.filesystem, found.inode)
            .await?;
        let used = quota.map_or(0, |quota| quota.used());
        if used > bytes {
            report.warn(&format!(
                "Directory {name} holds {used} bytes, more than its capacity of {bytes}: writes fail until its claim is expanded or files are deleted"
            ));
        }
        Ok(true)
    }

    /// Sets a quota or only waits for it, and says from time to time that the cluster is still at it.
    async fn set_patiently(
        &self,
        name: &str,
        inode: u64,
        limits: Option<Limits>,
        report: &Report<'_>,
    ) -> Result<(), ApiError> {
        let begun = Instant::now();
        let api = self.managed.api.until(Deadline::after(self.quota_timeout));
        let filesystem = &self.managed.filesystem;
        let mut set = pin!(async {
            match limits {
                Some(limits) => api.set_quota(filesystem, inode, limits).await,
                None => api.await_quota(filesystem, inode).await,
            }
        });
        let every = self.progress_interval;
        let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                done = &mut set => return done,
                _ = ticks.tick() => {
                    let seconds = begun.elapsed().as_secs();
                    report.info(&format!("Still waiting for the quota of directory {name} ({seconds} s)"));
                }
            }
        }
    }

    /// Removes the attribute, unless it has changed since it was read.
    async fn remove_attribute(&self, name: &str, before: Found) -> Result<Removal, Error> {
        let (path, name) = (self.directory.clone(), name.to_owned());
        let remove = move |root: &Root| {
            let Some(directory) = open(root, &path, &name)? else {
                return Ok(Removal::Changed);
            };
            if directory.inode != before.inode || capacity(&directory, &path)? != before.capacity {
                return Ok(Removal::Changed);
            }
            Ok(match directory.forget_capacity() {
                Ok(()) => Removal::Done,
                Err(error) => Removal::Refused(error),
            })
        };
        self.within(remove).await
    }

    async fn look(&self, name: &str) -> Result<Option<Found>, Error> {
        let (path, name) = (self.directory.clone(), name.to_owned());
        let look = move |root: &Root| {
            let Some(directory) = open(root, &path, &name)? else {
                return Ok(None);
            };
            let capacity = capacity(&directory, &path)?;
            let inode = directory.inode;
            Ok(Some(Found { inode, capacity }))
        };
        self.within(look).await
    }

    /// Whether the cluster has this directory. If it has another one there, the mount is another cluster's, where the quota of a
    /// stranger would be set.
    async fn is_on_cluster(&self, path: &Path, inode: u64) -> Result<bool, Error> {
        if !self.managed.facts.resolves_paths() {
            return Ok(true);
        }
        match self.api().inode(&self.managed.filesystem, path).await? {
            None => Ok(false),
            Some(found) if found == inode => Ok(true),
            Some(_) => Err(self.managed.other_cluster()),
        }
    }

    /// Why one directory is not migrated. An error that concerns all of them stays one.
    async fn explain(&self, error: Error) -> Result<String, Error> {
        match error {
            Error::Access(AccessError::Api(error @ ApiError::Refused { .. })) => {
                let remedy = self.api().quota_remedy(&error).await;
                Ok(format!("{error}; {remedy}"))
            }
            Error::Access(AccessError::Api(
                error @ (ApiError::Deadline { .. }
                | ApiError::Conflict { .. }
                | ApiError::Missing { .. }
                | ApiError::Malformed { .. }),
            )) => Ok(format!("{error}; run the migration again")),
            error => Err(error),
        }
    }

    fn api(&self) -> Api {
        self.managed.api.until(Deadline::after(CALL_TIME))
    }

    async fn within<T, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnOnce(&Root) -> Result<T, Error> + Send + 'static,
    {
        let deadline = Deadline::after(CALL_TIME);
        let filesystem = self.filesystem.until(deadline);
        let done = self
            .mounts
            .within(&filesystem, &self.options, deadline, work);
        done.await
    }
}
