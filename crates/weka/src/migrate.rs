//! `stowage migrate weka-legacy`: gives volumes from before there were quotas the quota that their attribute promises.
//!
//! - [`args`]: the command line; [`credentials`]: who we are to the cluster.
//! - `decide`: what is to be done with a directory. Pure.
//! - `volumes`: the directories, and the steps of each; `entries`: what is found on the filesystem.
//! - `report`: what is printed.
//!
//! Nothing is remembered outside of the filesystem: a volume whose attribute is gone and which has a quota is done. So a run may be
//! stopped anywhere and repeated.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use stowage_csi::flags::absolute;
use stowage_host::exec::HostExec;
use stowage_host::mount::{HostMounter, Mounter};
use stowage_host::stat::Stats;
use stowage_host::workers::Workers;
use stowage_host::{PathError, create_directories};
use tokio_util::sync::CancellationToken;

use crate::config::NfsRules;
use crate::driver::MOST_THREADS;
use crate::driver::client::{ChosenContainers, LocalClient};
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::mounts::{Mounts, is_weka};
use crate::driver::nfs::NfsAccess;
use crate::dynamic_paths::below_root;
use crate::metrics::Metrics;
use crate::options::{Options, Vocabulary};
use crate::rest::client::{Client, ClientOptions};
use crate::rest::{Api, Deadline};
use crate::secret::Credentials;
use crate::version::Capability;
use report::{Ending, Report};
use volumes::{Outcome, Volumes};

pub use args::MigrateArgs;
pub use credentials::CredentialsError;
pub use error::MigrateError;

mod args;
mod credentials;
mod decide;
mod entries;
mod error;
mod report;
mod volumes;

/// How long the cluster may take to let us in, and a mount to end.
const CALL_TIME: Duration = Duration::from_secs(60);

/// How long one answer of the cluster may take.
const API_TIME: Duration = Duration::from_secs(60);

/// Attributes of directories need `acl`.
const OPTIONS: &str = "acl";

/// After how many directories the progress is told.
const PROGRESS: usize = 100;

/// Migrates the volumes of a filesystem. Returns whether all of them are as they should be. `print` gets each line; `environment`
/// looks up a variable.
///
/// Called twice: the second run has nothing to do. Stopped anywhere: the next run goes on.
pub async fn migrate(
    args: &MigrateArgs,
    environment: &dyn Fn(&str) -> Option<String>,
    print: &dyn Fn(String),
    stop: &CancellationToken,
) -> Result<bool, MigrateError> {
    let job = Job::new(args, environment)?;
    let mut report = Report::new(print, args.debug, args.dry_run);
    report.banner();
    report.notice(&format!(
        "Initializing volume migration for filesystem {}",
        args.filesystem
    ));
    let ended = tokio::select! {
        ended = job.run(&mut report) => ended.map(|()| Ending::Reached),
        () = stop.cancelled() => Ok(Ending::Interrupted),
    };
    job.unmount(&mut report).await;
    match ended {
        Ok(ending) => {
            report.summarize(ending);
            Ok(ending == Ending::Reached && report.counts.failed.is_empty())
        }
        Err(error) => {
            report.summarize(Ending::Aborted);
            Err(error)
        }
    }
}

/// One run.
struct Job<'a> {
    args: &'a MigrateArgs,
    /// From the root of the filesystem.
    directory: PathBuf,
    client: Arc<Client>,
    mounter: Arc<dyn Mounter>,
    mounts: Arc<Mounts>,
    /// Kept from others as long as the run lasts.
    _lock: File,
}

impl<'a> Job<'a> {
    fn new(
        args: &'a MigrateArgs,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, MigrateError> {
        let name = &args.filesystem;
        if name.is_empty() || name.contains(['/', ':', '\0']) {
            return Err(MigrateError::Filesystem(name.clone()));
        }
        let directory = &args.csi_volumes_dir;
        let directory =
            below_root(directory).map_err(|_| MigrateError::Directory(directory.clone()))?;
        let address = args.endpoint_address.as_deref();
        let secret = credentials::read(args.secret_file.as_deref(), environment, address)?;
        let credentials = Credentials::parse(&secret)
            .map_err(|error| CredentialsError::Invalid(error.to_string()))?;
        let options = ClientOptions {
            insecure: args.allow_insecure_https,
            rotate: false,
            timeout: API_TIME,
        };
        let client = Client::new(credentials, options, Metrics::default())?;
        if !rustix::process::geteuid().is_root() {
            return Err(MigrateError::NotRoot);
        }
        let base = absolute("mount-base", args.mount_base.clone())?;
        let lock = lock(&base)?;
        let stats = Arc::new(Stats::default());
        let mounter: Arc<dyn Mounter> = Arc::new(HostMounter::new(Arc::new(HostExec), stats));
        Ok(Self {
            args,
            directory: directory.into(),
            client: Arc::new(client),
            mounts: Arc::new(mounts(args, mounter.clone())),
            mounter,
            _lock: lock,
        })
    }

    async fn run(&self, report: &mut Report<'_>) -> Result<(), MigrateError> {
        let filesystem = &self.args.filesystem;
        let volumes = self.volumes(self.connect().await?);
        self.mounts.hide().await?;
        if volumes.mount().await? && !self.args.dry_run {
            return Err(MigrateError::ReadOnly {
                filesystem: filesystem.clone(),
                base: self.args.mount_base.clone(),
            });
        }
        report.notice(&format!("Successfully mounted filesystem {filesystem}"));
        let missing = || MigrateError::DirectoryMissing {
            filesystem: filesystem.clone(),
            directory: self.directory.clone(),
        };
        let entries = volumes.list().await?.ok_or_else(missing)?;
        report.notice("Starting Persistent Volume migration");
        let total = entries.len();
        for (number, entry) in entries.into_iter().enumerate() {
            if number > 0 && number.is_multiple_of(PROGRESS) {
                report.info(&format!("{number} of {total} directories processed"));
            }
            let name = &entry.name;
            if !entry.is_directory {
                report.warn(&format!(
                    "'{name}' is not a directory, so it is not a volume"
                ));
                continue;
            }
            report.info(&format!("Processing directory '{name}'"));
            match volumes.migrate(name, report).await? {
                Outcome::Migrated => report.counts.migrated += 1,
                Outcome::Skipped => report.counts.skipped += 1,
                Outcome::Failed(reason) => report.fail(name, &reason),
                Outcome::Gone => report.info(&format!("Directory {name} was deleted meanwhile")),
            }
        }
        Ok(())
    }

    /// The filesystem, on a cluster that can do what is needed.
    async fn connect(&self) -> Result<Managed, MigrateError> {
        let api = Api::new(self.client.clone(), Deadline::after(CALL_TIME));
        let facts = api.facts().await?;
        if !facts.has(Capability::DirectoryQuota) {
            return Err(facts.too_old("a quota for a directory", "3.13").into());
        }
        facts.check_may_write("set the quota of a directory")?;
        let name = &self.args.filesystem;
        let found = api.filesystem(name).await?;
        let filesystem = found.ok_or_else(|| MigrateError::FilesystemMissing {
            filesystem: name.clone(),
            cluster: facts.name.clone(),
            organization: self.client.credentials.organization.clone(),
        })?;
        Ok(Managed {
            api,
            facts,
            filesystem,
        })
    }

    fn volumes(&self, managed: Managed) -> Volumes {
        let mut options = Options::parse(OPTIONS);
        if self.args.dry_run {
            options.add("ro", &Vocabulary::default());
        }
        Volumes {
            mounts: self.mounts.clone(),
            filesystem: WekaFilesystem {
                name: managed.filesystem.name.clone(),
                managed: Some(managed.clone()),
            },
            managed,
            options,
            directory: self.directory.clone(),
            is_dry: self.args.dry_run,
            quota_timeout: self.args.quota_timeout,
            progress_interval: self.args.progress_interval.max(Duration::from_millis(1)),
        }
    }

    /// Leaves nothing mounted, also of an earlier run that was killed.
    async fn unmount(&self, report: &mut Report<'_>) {
        self.mounts.unmount_all().await;
        self.mounts.unhide().await;
        let Ok(table) = self.mounter.table().await else {
            return;
        };
        let left = table.under(&self.args.mount_base);
        for mount in left.filter(is_weka) {
            let point = mount.point().display();
            report.warn(&format!(
                "'{point}' is still mounted: unmount it, or run the migration again"
            ));
        }
    }
}

fn mounts(args: &MigrateArgs, mounter: Arc<dyn Mounter>) -> Mounts {
    let node = rustix::system::uname();
    let node = node.nodename().to_string_lossy().into_owned();
    let client = LocalClient {
        files: args.client_files.clone(),
        configured: args.container_name.clone().filter(|name| !name.is_empty()),
        node: node.clone(),
        workers: Workers::new(MOST_THREADS),
        chosen: ChosenContainers::default(),
    };
    let nfs = NfsAccess::new(NfsRules::never(), node);
    let base = args.mount_base.clone();
    let mounts = Mounts::new(base, mounter, client, nfs, Vocabulary::default(), CALL_TIME);
    mounts.through(args.endpoint_address.clone())
}

/// Keeps other runs away from a directory: they would unmount each other's filesystems.
fn lock(base: &Path) -> Result<File, MigrateError> {
    create_directories(base, 0o750)?;
    let path = base.with_extension("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(PathError::at("open", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(MigrateError::Busy(base.to_owned())),
        Err(errno) => Err(PathError::at("lock", &path)(errno).into()),
    }
}
