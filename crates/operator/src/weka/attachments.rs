//! VolumeAttachments as the API server has them at this moment. What is watched may be behind, and a client that stops takes
//! away what is mounted through it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kube::api::ListParams;
use kube::{Api, Client, Error};
use tokio::sync::Mutex;

use super::cluster::{place, read_attachment};
use crate::cluster::ReducedAttachment;

/// Lists them. The server cannot list those of one node, so one list serves all who asked before it was begun.
#[derive(Default)]
pub struct Attachments {
    last: Mutex<Option<(Instant, Arc<Listed>)>>,
}

/// How many there are, by driver and node.
#[derive(Debug, Default)]
pub struct Listed(BTreeMap<String, usize>);

impl Attachments {
    /// Those that there are now.
    pub async fn list(&self, client: &Client) -> Result<Arc<Listed>, Error> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((begun, listed)) = &*last
            && *begun >= asked
        {
            return Ok(Arc::clone(listed));
        }
        let begun = Instant::now();
        let listed = Arc::new(Listed::new(client).await?);
        *last = Some((begun, Arc::clone(&listed)));
        Ok(listed)
    }
}

impl Listed {
    async fn new(client: &Client) -> Result<Self, Error> {
        let all = Api::<ReducedAttachment>::all(client.clone());
        let all = all.list(&ListParams::default()).await?;
        let mut counts = BTreeMap::new();
        for attachment in all.into_iter().filter_map(read_attachment) {
            *counts.entry(attachment.place).or_default() += 1;
        }
        Ok(Self(counts))
    }

    /// How many volumes of a driver are attached to a node.
    pub fn of(&self, driver: &str, node: &str) -> usize {
        self.0
            .get(&place(driver, node))
            .copied()
            .unwrap_or_default()
    }
}
