//! [`LocalMounter`]: filesystems of the simulated array as local directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_csi::host::HostFuture;
use stowage_csi::host::exec::HostExec;
use stowage_csi::host::mount::{
    Bind, BindSource, FsMount, HostMounter, MountError, Mounter, Propagation, Shown, Unmount, View,
};
use stowage_csi::host::mountinfo::MountTable;
use stowage_csi::host::stat::{Health, Stats};

use crate::start::Host;

/// The machine's mounts, where `mount -t wekafs` binds a directory and is shown in the table as what it stands for.
pub struct LocalMounter {
    real: HostMounter,
    /// Names of filesystems and their directories.
    filesystems: Vec<(String, PathBuf)>,
}

impl LocalMounter {
    pub fn host(filesystems: Vec<(String, PathBuf)>) -> Host {
        let stats = Arc::new(Stats::default());
        let real = HostMounter::new(Arc::new(HostExec), stats.clone());
        Host {
            mounter: Arc::new(Self { real, filesystems }),
            stats,
        }
    }

    async fn rewritten(&self) -> Result<Arc<MountTable>, MountError> {
        let mut text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        for (name, directory) in &self.filesystems {
            let shown = self
                .real
                .identify(&BindSource::Path(directory.clone()))
                .await?;
            let root = shown.root.to_str().unwrap();
            let rewrite = |line: &str| {
                let mut fields: Vec<_> = line.split(' ').map(str::to_owned).collect();
                let below = fields[3].strip_prefix(root).map(str::to_owned);
                let Some(below) = below.filter(|_| fields[2] == shown.device.to_string()) else {
                    return line.to_owned();
                };
                fields[3] = if below.is_empty() {
                    "/".to_owned()
                } else {
                    below
                };
                let dash = fields.iter().position(|field| field == "-").unwrap();
                fields[dash + 1] = "wekafs".to_owned();
                fields[dash + 2].clone_from(name);
                fields.join(" ")
            };
            text = text.lines().map(rewrite).collect::<Vec<_>>().join("\n");
        }
        Ok(Arc::new(MountTable::parse(text + "\n")?))
    }
}

impl Mounter for LocalMounter {
    fn table(&self) -> HostFuture<'_, Result<Arc<MountTable>, MountError>> {
        Box::pin(self.rewritten())
    }

    fn is_mounted<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<bool, MountError>> {
        self.real.is_mounted(target)
    }

    fn look<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<View, MountError>> {
        Box::pin(async move {
            let point = self.real.look(target).await?.point;
            let table = self.rewritten().await?;
            Ok(View { table, point })
        })
    }

    fn is_directory<'a>(
        &'a self,
        source: &'a BindSource,
    ) -> HostFuture<'a, Result<bool, MountError>> {
        self.real.is_directory(source)
    }

    fn identify<'a>(&'a self, source: &'a BindSource) -> HostFuture<'a, Result<Shown, MountError>> {
        Box::pin(async move {
            let mut shown = self.real.identify(source).await?;
            for (_, directory) in &self.filesystems {
                let of = self
                    .real
                    .identify(&BindSource::Path(directory.clone()))
                    .await?;
                if let Ok(below) = shown.root.strip_prefix(&of.root) {
                    shown.root = Path::new("/").join(below);
                    break;
                }
            }
            Ok(shown)
        })
    }

    fn health<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Health> {
        self.real.health(target)
    }

    fn bind<'a>(&'a self, bind: &'a Bind) -> HostFuture<'a, Result<(), MountError>> {
        self.real.bind(bind)
    }

    fn mount<'a>(&'a self, mount: &'a FsMount) -> HostFuture<'a, Result<(), MountError>> {
        Box::pin(async move {
            assert_eq!(mount.kind, "wekafs");
            let known = self
                .filesystems
                .iter()
                .find(|(name, _)| mount.source == **name);
            let (_, directory) = known.expect("a filesystem of the array");
            let bind = Bind {
                source: BindSource::Path(directory.clone()),
                target: mount.target.clone(),
                read_only: false,
            };
            self.real.bind(&bind).await
        })
    }

    fn mount_with_secret<'a>(
        &'a self,
        mount: &'a FsMount,
        secret: &'a str,
    ) -> HostFuture<'a, Result<(), MountError>> {
        assert!(secret.starts_with("token="));
        self.mount(mount)
    }

    fn make_read_only<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<(), MountError>> {
        self.real.make_read_only(target)
    }

    fn set_propagation<'a>(
        &'a self,
        target: &'a Path,
        propagation: Propagation,
    ) -> HostFuture<'a, Result<(), MountError>> {
        self.real.set_propagation(target, propagation)
    }

    fn unmount<'a>(
        &'a self,
        target: &'a Path,
        how: Unmount,
    ) -> HostFuture<'a, Result<(), MountError>> {
        self.real.unmount(target, how)
    }
}
