//! A journal of a node, seen by another one.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use stowage_api::intents::{CONTENT, DRIVER, NODE};

use super::document::Unreadable;
use super::listing;
use crate::intent::Intent;

/// A journal that nobody has written to for a while.
pub(crate) struct Abandoned {
    /// Whose it is.
    pub(crate) node: String,
    pub(crate) intents: Result<Vec<Intent>, Unreadable>,
}

impl Abandoned {
    /// Reads a Lease. `None`: it is not the journal of this driver on a node, or it was written to lately.
    pub(crate) fn read(lease: &Lease, driver: &str, lately: Duration) -> Option<Self> {
        let annotations = lease.metadata.annotations.as_ref()?;
        if annotations.get(DRIVER)? != driver {
            return None;
        }
        let written = lease.spec.as_ref()?.renew_time.as_ref()?;
        if Timestamp::now().duration_since(written.0).unsigned_abs() < lately {
            return None;
        }
        let text = annotations.get(CONTENT);
        Some(Self {
            node: annotations.get(NODE)?.clone(),
            intents: text.map_or(Ok(Vec::new()), |text| listing::read(text)),
        })
    }
}
