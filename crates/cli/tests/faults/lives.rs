//! Carries out what is planned for a claim.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    account::Snapshot,
    cluster::{Cluster, PATIENCE, delete},
    plan::{Life, next_node},
};

/// What a life needs to see.
#[derive(Clone)]
pub struct Witness {
    pub cluster: Cluster,
    pub snapshots: watch::Receiver<Snapshot>,
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

    async fn until<T>(&mut self, what: &str, find: impl Fn(&Snapshot) -> Option<T>) -> T {
        let mut found = None;
        let seen = self.snapshots.wait_for(|seen| {
            found = find(seen);
            found.is_some()
        });
        let in_time = timeout(PATIENCE, seen).await;
        assert!(in_time.is_ok(), "not within {PATIENCE:?}: {what}");
        drop(in_time);
        found.unwrap_or_else(|| panic!("nobody looks any more whether {what}"))
    }
}
