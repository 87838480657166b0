//! The directory of our mounts, kept out of the sight of others.
//!
//! A filesystem holds the volumes of everybody. Where the directory shares what is mounted in it with other mounts of the
//! machine (a `hostPath` with `Bidirectional`, or a driver outside of a container), any pod that has a directory of the
//! node above it would see all of them.

use std::time::Duration;

use stowage_host::mount::{Bind, BindSource, Propagation, Unmount, View, ensure_unmounted};
use stowage_host::mountinfo::Mount;
use stowage_host::{blocking, create_directories};
use tokio::time::timeout;

use super::{Mounts, POINT_MODE};
use crate::error::{Error, chain};

/// How long mounts that others see may take to go away; one that hangs stays as it is.
const TIME_TO_CLEAR: Duration = Duration::from_secs(10);

impl Mounts {
    /// Makes sure that nobody else gets what is mounted from now on, and takes away what others see already.
    ///
    /// Called twice: it is private already.
    pub(crate) async fn hide(&self) -> Result<(), Error> {
        let base = self.base.clone();
        blocking(move || create_directories(&base, POINT_MODE)).await?;
        let view = self.mounter.look(&self.base).await?;
        let Some(shared) = holder(&view).filter(|mount| mount.peer_group().is_some()) else {
            return Ok(());
        };
        if shared.point() == view.point {
            // Others lose a mount together with us, as long as we share it.
            let cleared = timeout(TIME_TO_CLEAR, self.unmount_idle(Duration::ZERO)).await;
            if cleared.is_err() {
                let base = self.base.display();
                tracing::warn!(%base, "A filesystem in this directory hangs, and other pods may see it: unmount it on the node.");
            }
        } else {
            let own = Bind {
                source: BindSource::Path(self.base.clone()),
                target: self.base.clone(),
                read_only: false,
            };
            self.mounter.bind(&own).await?;
        }
        let private = self
            .mounter
            .set_propagation(&self.base, Propagation::Private);
        Ok(private.await?)
    }

    /// Takes away the mount that only hid the others.
    pub(crate) async fn unhide(&self) {
        let unmounted = async {
            let view = self.mounter.look(&self.base).await?;
            if shows_itself(&view) {
                ensure_unmounted(&*self.mounter, &self.base, Unmount::Normal).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = unmounted.await {
            let error = chain(&error);
            tracing::warn!(
                error,
                "Cannot unmount the directory of mounts; the next start uses it."
            );
        }
    }
}

/// The mount that a place is on.
fn holder(view: &View) -> Option<Mount<'_>> {
    let mut places = view.point.ancestors();
    places.find_map(|place| view.table.at(place))
}

/// Whether a mount shows just what was there before: then it is ours.
fn shows_itself(view: &View) -> bool {
    let Some(mount) = view.mount() else {
        return false;
    };
    let below = view.table.with_id(mount.parent());
    below.is_some_and(|below| {
        let within = view.point.strip_prefix(below.point());
        let same = within.is_ok_and(|within| mount.root() == below.root().join(within));
        same && mount.device() == below.device()
    })
}
