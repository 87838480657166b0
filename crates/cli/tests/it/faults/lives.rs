//! Carries out what is planned for a claim.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::faults::account::Picture;
use crate::faults::cluster::{Cluster, PATIENCE, delete};
use crate::faults::line::{End, LARGER, LARGEST, Line, restored};
use crate::faults::plan::{Life, next_node};

/// What a life needs to see.
#[derive(Clone)]
pub struct Witness {
    pub cluster: Cluster,
    pub pictures: watch::Receiver<Picture>,
    /// Counts the faults that have struck.
    pub faults: watch::Receiver<usize>,
}

impl Witness {
    /// Lives the life of one claim; returns when nothing more is to be done for it.
    pub async fn live(mut self, claim: String, life: Life) {
        // Faults before this moment do not count.
        self.faults.mark_unchanged();
        self.cluster.create_claim(&claim).await;
        match life {
            Life::Stays => return,
            Life::GoesAfter(time) => sleep(time).await,
            Life::GoesWhenBound => drop(self.bound(&claim).await),
            // No more faults: now is as good as later.
            Life::GoesDuringFault => drop(self.faults.changed().await),
            Life::StaysAttached { node } => {
                let volume = self.bound(&claim).await;
                self.cluster.attach(&volume, node).await;
                return;
            }
            Life::Moves { from } => {
                let volume = self.bound(&claim).await;
                self.visit(&volume, from).await;
                self.cluster.attach(&volume, next_node(from)).await;
                return;
            }
            Life::Visits { node } => {
                let volume = self.bound(&claim).await;
                self.visit(&volume, node).await;
            }
            Life::PassesBy { node, stay } => {
                let volume = self.bound(&claim).await;
                let attachment = self.cluster.attach(&volume, node).await;
                sleep(stay).await;
                delete(&self.cluster.attachments(), &attachment).await;
            }
            Life::GoesWhileAttached { node } => {
                let volume = self.bound(&claim).await;
                let attachment = self.attached(&volume, node).await;
                delete(&self.cluster.claims(), &claim).await;
                sleep(Duration::from_millis(300)).await;
                delete(&self.cluster.attachments(), &attachment).await;
                return;
            }
        }
        delete(&self.cluster.claims(), &claim).await;
    }

    /// Lives the life of a claim that grows, of its snapshot, and of what is restored from it.
    pub async fn live_line(mut self, name: String, line: Line) {
        self.cluster.create_claim(&name).await;
        self.bound(&name).await;
        let mut size = LARGER;
        self.cluster.grow(&name, size).await;
        if let Some(pause) = line.grows_again {
            sleep(pause).await;
            size = LARGEST;
            self.cluster.grow(&name, size).await;
        }
        if !line.taken_while_growing {
            self.grown(&name, size).await;
        }
        self.faults.mark_unchanged();
        self.cluster.take(&name).await;
        self.end_line(&name, line.end).await;
    }

    async fn end_line(&mut self, name: &str, end: End) {
        let cluster = self.cluster.clone();
        let (claims, snapshots) = (cluster.claims(), cluster.snapshots());
        let restored = &restored(name);
        match end {
            End::AllStay => self.restored(name).await,
            End::SourceGoes => {
                self.content_made(name).await;
                delete(&claims, name).await;
                self.restored(name).await;
            }
            End::SnapshotGoesAfter(time) => {
                sleep(time).await;
                delete(&snapshots, name).await;
            }
            End::SnapshotGoesDuringFault => {
                // No more faults: now is as good as later.
                drop(self.faults.changed().await);
                delete(&snapshots, name).await;
            }
            End::SnapshotGoesWhenRestored => {
                self.restored(name).await;
                delete(&snapshots, name).await;
            }
            End::RestoreIsGivenUp(time) => {
                self.ready(name).await;
                cluster.restore(restored, name).await;
                sleep(time).await;
                delete(&snapshots, name).await;
                delete(&claims, restored).await;
            }
            End::AllGo => {
                self.restored(name).await;
                delete(&claims, name).await;
                delete(&snapshots, name).await;
                delete(&claims, restored).await;
            }
        }
    }

    /// Waits until a claim has the size that it asks for.
    async fn grown(&mut self, claim: &str, size: i64) {
        self.until(&format!("{claim} has grown to {size}"), |seen| {
            (seen.claims.get(claim)?.size == size).then_some(())
        })
        .await;
    }

    /// Waits until somebody works on a snapshot: from then on its claim may go.
    async fn content_made(&mut self, snapshot: &str) {
        self.until(&format!("snapshot {snapshot} has a content"), |seen| {
            seen.snapshots.get(snapshot)?.content.clone()
        })
        .await;
    }

    async fn ready(&mut self, snapshot: &str) {
        self.until(&format!("snapshot {snapshot} is ready"), |seen| {
            seen.snapshots.get(snapshot)?.ready.then_some(())
        })
        .await;
    }

    /// Restores a snapshot as soon as it is ready, into a claim that is bound in the end.
    async fn restored(&mut self, snapshot: &str) {
        self.ready(snapshot).await;
        let claim = restored(snapshot);
        self.cluster.restore(&claim, snapshot).await;
        self.bound(&claim).await;
    }

    /// Attaches a volume and detaches it again.
    async fn visit(&mut self, volume: &str, node: usize) {
        let attachment = self.attached(volume, node).await;
        delete(&self.cluster.attachments(), &attachment).await;
        self.until(&format!("{attachment} is detached"), |seen| {
            (!seen.attachments.contains_key(&attachment)).then_some(())
        })
        .await;
    }

    async fn attached(&mut self, volume: &str, node: usize) -> String {
        let name = self.cluster.attach(volume, node).await;
        self.until(&format!("{name} is attached"), |seen| {
            let attachment = seen.attachments.get(&name)?;
            attachment.attached.then_some(())
        })
        .await;
        name
    }

    /// Waits until a claim is bound; returns its volume.
    async fn bound(&mut self, claim: &str) -> String {
        self.until(&format!("{claim} is bound"), |seen| {
            seen.claims.get(claim)?.bound_to.clone()
        })
        .await
    }

    async fn until<T>(&mut self, what: &str, find: impl Fn(&Picture) -> Option<T>) -> T {
        let mut found = None;
        let seen = self.pictures.wait_for(|seen| {
            found = find(seen);
            found.is_some()
        });
        let in_time = timeout(PATIENCE, seen).await;
        assert!(in_time.is_ok(), "not within {PATIENCE:?}: {what}");
        drop(in_time);
        found.unwrap_or_else(|| panic!("nobody looks any more whether {what}"))
    }
}
