//! How a filesystem is mounted on this node at this moment: by the Weka client, or by NFS.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Instant;

use stowage_host::exec::ExecError;
use stowage_host::mount::MountError;
use stowage_host::mountinfo::Mount;

use super::shown::{NFS, WEKAFS};
use super::{Mounts, NFS_ATTEMPTS, Retries};
use crate::driver::client::LocalContainer;
use crate::driver::filesystem::{AskedCluster, Managed, WekaFilesystem};
use crate::error::{Error, chain};
use crate::name;
use crate::nfs::translate;
use crate::options::Options;
use crate::rest::Deadline;
use crate::selinux::{Kernel, Labelled};
use crate::topology::Transport;

/// A mount that may be made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: &'static str,
    pub(super) source: String,
    pub(super) options: Options,
    pub(super) point: PathBuf,
    /// The client's container that it goes through.
    pub(super) container: Option<LocalContainer>,
    /// The server of NFS that it goes to.
    pub(super) server: Option<IpAddr>,
    /// Until when a refusal may only mean that a permission is new.
    pub(super) settling_until: Option<Instant>,
}

impl Plan {
    pub(super) fn is_by_nfs(&self) -> bool {
        self.kind == NFS[0]
    }

    /// How long it is waited for, while `others` are left to try. A server of NFS that does not answer must not use up the time
    /// of those that would.
    pub(super) fn time(&self, deadline: Deadline, others: usize) -> Deadline {
        match u32::try_from(others) {
            Ok(others) if self.is_by_nfs() && others > 0 => {
                Deadline::after(deadline.remaining() / (others + 1))
            }
            _ => deadline,
        }
    }

    /// Whether a failure is that of a server of NFS that does not answer.
    pub(super) fn is_silence(&self, error: &Error) -> bool {
        let is_silence = matches!(
            error,
            Error::MountUnfinished { .. } | Error::MountStuck { .. } | Error::MountHung(_)
        );
        is_silence && self.is_by_nfs()
    }

    /// Whether a mount has its source. The client may leave out the address that it was given.
    pub(super) fn is_shown_by(&self, mount: &Mount<'_>) -> bool {
        let named = self.source.rsplit('/').next();
        let is_named = named.is_some_and(|named| mount.source() == named);
        mount.source() == self.source.as_str()
            || if self.is_by_nfs() {
                self.is_export_of(mount)
            } else {
                is_named
            }
    }

    /// The kernel may write more slashes than it was given.
    fn is_export_of(&self, mount: &Mount<'_>) -> bool {
        let source = mount.source().to_string_lossy();
        let whole = |source: &str| {
            let (server, export) = source.split_once(":/")?;
            Some((server.to_owned(), export.trim_matches('/').to_owned()))
        };
        whole(&source).is_some_and(|shown| whole(&self.source) == Some(shown))
    }

    /// How often it is tried: a server of NFS may need a moment, the Weka client does not.
    pub(super) fn retries(&self) -> Retries {
        Retries {
            attempts: if self.is_by_nfs() { NFS_ATTEMPTS } else { 1 },
            until: self.settling_until,
        }
    }
}

/// Whether a server does not let this node in: as `mount.nfs` says it, and as the kernel does.
fn is_denied(error: &MountError) -> bool {
    let MountError::Helper {
        source: ExecError::Failure { said, .. },
        ..
    } = error
    else {
        return false;
    };
    let said = said.to_lowercase();
    said.contains("access denied") || said.contains("permission denied")
}

impl Mounts {
    /// The same through a client that need not run before: given the address of a backend, the mount starts it.
    pub(crate) fn through(mut self, backend: Option<String>) -> Self {
        self.backend = backend;
        self
    }

    /// The same with labels for SELinux.
    pub(crate) fn labelled(mut self, kernel: Kernel) -> Self {
        self.selinux = Some(kernel);
        self
    }

    /// Adds the label that a mount needs on this node.
    fn label(&self, options: &mut Options, kind: Labelled) -> Result<(), Error> {
        if let Some(kernel) = self.selinux {
            kernel.check_keeps_labels()?;
            kind.label(options, &self.vocabulary);
        }
        Ok(())
    }

    /// The ways to mount a filesystem, the best first.
    pub(super) async fn plans(
        &self,
        filesystem: &WekaFilesystem,
        options: &Options,
        deadline: Deadline,
    ) -> Result<Vec<Plan>, Error> {
        if self.nfs.rules.always {
            return self.by_nfs(filesystem, options).await;
        }
        if self.backend.is_some() {
            return Ok(vec![self.by_client(filesystem, options, None)?]);
        }
        let cluster = filesystem.managed.as_ref().map(Managed::cluster);
        match self.client.container(cluster, deadline).await {
            Ok(container) => self.by_client_or_nfs(filesystem, options, container).await,
            Err(error) if self.nfs.rules.as_failback && error.is_of_client() => {
                let reason = chain(&error);
                tracing::debug!(reason, "The Weka client cannot be used; mounting by NFS.");
                self.by_nfs(filesystem, options).await
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a mount at this moment may be by NFS, for which a node is given access.
    pub(crate) async fn may_use_nfs(
        &self,
        filesystem: &WekaFilesystem,
        deadline: Deadline,
    ) -> bool {
        if !self.nfs.rules.as_failback || self.nfs.rules.always {
            return self.nfs.rules.always;
        }
        let cluster = filesystem.managed.as_ref().map(Managed::cluster);
        match self.client.container(cluster, deadline).await {
            Ok(container) => container.is_some_and(|it| it.is_unconfirmed),
            Err(_) => true,
        }
    }

    /// Refuses a node that could mount no filesystem of a cluster, before one is made for it in vain.
    pub(crate) async fn check_able(
        &self,
        cluster: AskedCluster<'_>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        if let Some(kernel) = self.selinux {
            kernel.check_keeps_labels()?;
        }
        if self.nfs.rules.always {
            return self.nfs.check_able(cluster).await;
        }
        match self.client.container(Some(cluster), deadline).await {
            Err(error) if self.nfs.rules.as_failback && error.is_of_client() => {
                self.nfs.check_able(cluster).await
            }
            found => found.map(drop),
        }
    }

    /// By the client; and by NFS where that may be refused, because the client may be one of another cluster.
    async fn by_client_or_nfs(
        &self,
        filesystem: &WekaFilesystem,
        options: &Options,
        container: Option<LocalContainer>,
    ) -> Result<Vec<Plan>, Error> {
        let is_unconfirmed = container.as_ref().is_some_and(|it| it.is_unconfirmed);
        let mut plans = vec![self.by_client(filesystem, options, container)?];
        if self.nfs.rules.as_failback && is_unconfirmed {
            match self.by_nfs(filesystem, options).await {
                Ok(others) => plans.extend(others),
                Err(error) => {
                    let reason = chain(&error);
                    tracing::debug!(reason, "It cannot be mounted by NFS.");
                }
            }
        }
        self.used_first(plans).await
    }

    fn by_client(
        &self,
        filesystem: &WekaFilesystem,
        options: &Options,
        container: Option<LocalContainer>,
    ) -> Result<Plan, Error> {
        let mut options = options.clone();
        self.label(&mut options, Labelled::Wekafs)?;
        let mut directory = name::mount_point(&filesystem.name, &options.to_string());
        if let Some(LocalContainer { name, .. }) = &container {
            options.add(&format!("container_name={name}"), &self.vocabulary);
            directory = format!("{directory}-{}", name::plain(name));
        }
        Ok(Plan {
            kind: WEKAFS[0],
            source: match &self.backend {
                Some(backend) => format!("{backend}/{}", filesystem.name),
                None => filesystem.name.clone(),
            },
            options,
            point: self.place(filesystem).join(directory),
            container,
            server: None,
            settling_until: None,
        })
    }

    /// What is mounted already need not be tried.
    async fn used_first(&self, mut plans: Vec<Plan>) -> Result<Vec<Plan>, Error> {
        for number in 1..plans.len() {
            if self.mounter.is_mounted(&plans[number].point).await? {
                plans.swap(0, number);
                break;
            }
        }
        Ok(plans)
    }

    /// One way for each address of the cluster.
    async fn by_nfs(
        &self,
        filesystem: &WekaFilesystem,
        options: &Options,
    ) -> Result<Vec<Plan>, Error> {
        let mut options = translate(options, self.nfs.rules.version);
        self.label(&mut options, Labelled::Nfs)?;
        let servers = self.nfs.servers(filesystem).await?;
        let plan = |address: &IpAddr| {
            let mut options = options.clone();
            let directory = name::mount_point(&filesystem.name, &options.to_string());
            // The kernel wants it where no helper says it.
            options.add(&format!("addr={address}"), &self.vocabulary);
            let host = match address {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            };
            let server = name::plain(&address.to_string());
            Plan {
                kind: NFS[0],
                source: format!("{host}:/{}", filesystem.name),
                options,
                point: self
                    .place(filesystem)
                    .join(format!("{directory}-nfs-{server}")),
                container: None,
                server: Some(*address),
                settling_until: servers.settling_until,
            }
        };
        self.used_first(servers.addresses.iter().map(plan).collect())
            .await
    }
}

impl Mounts {
    /// Why a mount was refused, where it is not certain that this node is a client of the cluster, and where a server of NFS does
    /// not know it.
    pub(super) fn explain(&self, error: Error, filesystem: &WekaFilesystem, plan: &Plan) -> Error {
        match (error, plan, &filesystem.managed) {
            (
                error @ Error::Mount(_),
                Plan {
                    container: Some(container),
                    ..
                },
                Some(managed),
            ) if container.is_unconfirmed => Error::UnconfirmedContainer {
                cluster: managed.facts.name.clone(),
                container: container.name.clone(),
                source: Box::new(error),
            },
            (
                Error::Mount(source),
                Plan {
                    server: Some(server),
                    ..
                },
                _,
            ) if is_denied(&source) => self.nfs.denied(*server, filesystem, source).into(),
            (error, ..) => error,
        }
    }

    /// How this node mounts at this moment: an error is why it cannot. `is_connected` is whether its Weka client works.
    pub(crate) fn transport(&self, is_connected: Result<(), Error>) -> Result<Transport, Error> {
        let rules = &self.nfs.rules;
        match is_connected {
            _ if rules.always => Ok(Transport::Nfs),
            Ok(()) => Ok(Transport::Wekafs),
            Err(error) if rules.as_failback && error.is_of_client() => Ok(Transport::Nfs),
            Err(error) => Err(error),
        }
    }
}
