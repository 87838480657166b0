//! A volume on this node, and what of it is at a path.

use std::path::{Path, PathBuf};

use stowage_host::loopdev::BackingFile;
use stowage_host::mount::View;
use stowage_host::{PathError, blocking};

use crate::device::bound_loop;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Id, Key, Kind};
use crate::state::{Area, Image, StateError};

/// Where the image of a volume is: of one that the controller made, or of an inline volume.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) area: Area,
    pub(super) key: Key,
}

/// What is mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// The volume's filesystem.
    Filesystem {
        read_only: bool,
    },
    /// The device with this number, which stands for the volume.
    Device {
        number: u32,
        read_only: bool,
    },
    /// Anything else.
    Foreign,
}

impl Driver {
    /// Where a volume with this id is, if it is on this node. Which node the id names does not matter: what is to be
    /// taken away from a pod is recognised by its image, and a node may have been given another name meanwhile.
    pub(super) fn place(text: &str) -> Place {
        match Id::parse(Kind::Volume, text) {
            Some(Id { key, .. }) => Place {
                area: Area::Volumes,
                key,
            },
            // Any other id may be that of an inline volume: the kubelet makes those up.
            None => Place {
                area: Area::Inline,
                key: Key::of_name(text),
            },
        }
    }

    /// The image at a place, locked. Its record is not looked at: one that is damaged must not keep a pod from
    /// going away.
    pub(super) async fn lock_image(&self, place: &Place) -> Result<Option<Image>, StateError> {
        let (store, place) = (self.store.clone(), place.clone());
        blocking(move || store.lock(place.area, &place.key)).await
    }

    /// The identity of the image of a volume that exists, without a lock.
    pub(super) async fn backing(&self, text: &str) -> Result<(PathBuf, BackingFile), Error> {
        let place = Self::place(text);
        if place.area == Area::Volumes {
            self.volume(text).await?;
        }
        let path = self.store.image_path(place.area, &place.key);
        let asked = path.clone();
        let examined =
            blocking(move || std::fs::File::open(&asked).and_then(|file| BackingFile::of(&file)));
        match examined.await {
            Ok(backing) => Ok((path, backing)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(match place.area {
                Area::Inline => Error::VolumeMissing(text.to_owned()),
                Area::Volumes | Area::Snapshots | Area::Groups => {
                    StateError::ImageLost { path }.into()
                }
            }),
            Err(error) => Err(PathError::at("examine", path)(error).into()),
        }
    }

    /// What of the volume is at a path. The path itself is never touched: what is mounted there may hang.
    pub(super) async fn found_at(&self, path: &Path, backing: BackingFile) -> Result<Found, Error> {
        let view = self.host.mounter.look(path).await?;
        let host = self.host.clone();
        Ok(blocking(move || {
            let Some(mount) = view.mount() else {
                return Found::Nothing;
            };
            if !host.shows(&mount, backing) {
                return Found::Foreign;
            }
            match bound_loop(&mount) {
                None => Found::Filesystem {
                    read_only: mount.read_only(),
                },
                Some(number) => Found::Device {
                    number,
                    read_only: device_refuses_writes(&host, number, backing),
                },
            }
        })
        .await)
    }

    /// The other places where the volume is published as a whole. Mounts of directories in it are the kubelet's.
    pub(super) async fn other_targets(
        &self,
        view: &View,
        backing: BackingFile,
        except: &[&Path],
    ) -> Vec<PathBuf> {
        let (host, table) = (self.host.clone(), view.table.clone());
        let except: Vec<_> = except.iter().map(|path| (*path).to_owned()).collect();
        blocking(move || {
            let whole = table.iter().filter(|mount| {
                bound_loop(mount).is_some()
                    || mount.root() == Path::new("/")
                    || mount.kind() == "btrfs"
            });
            whole
                .filter(|mount| !except.iter().any(|path| path == mount.point()))
                .filter(|mount| host.shows(mount, backing))
                .map(|mount| mount.point().to_owned())
                .collect()
        })
        .await
    }
}

fn device_refuses_writes(host: &crate::driver::Host, number: u32, backing: BackingFile) -> bool {
    let device = host.loops.at(number, backing).ok().flatten();
    let status = device.and_then(|device| device.status().ok().flatten());
    status.is_some_and(|status| status.read_only)
}
