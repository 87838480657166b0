//! `ControllerPublishVolume` and `ControllerUnpublishVolume`: attaching, on request.
//!
//! Nothing has to be attached: the data is on the node. But with `--enable-attach` the driver keeps the books as one
//! that must, so that everything which deals with attachments can be tried with it.

use std::sync::Arc;

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse,
};

use super::expand::check_access;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Kind, NodeId};
use crate::state::{Attachment, Image, VolumeRecord};
use crate::usage::Usage;

/// Notes that a volume is attached to a node.
pub(super) async fn publish(
    driver: Arc<Driver>,
    request: ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolumeResponse, Error> {
    let _guard = driver.locks.lock(&request.volume_id)?;
    let (image, mut record) = driver.claim_volume(&request.volume_id).await?;
    let node = known_node(&driver, &request.node_id)?;
    if let Some(capability) = &request.volume_capability {
        let usage = Usage::try_from(capability)?;
        check_access(&record, &usage)?;
        check_other_nodes(&record, &node, usage.mode)?;
    }
    let wanted = Attachment {
        read_only: request.readonly,
    };
    match record.attached.get(&node) {
        Some(attachment) if *attachment == wanted => {}
        Some(_) => {
            return Err(Error::Incompatible {
                name: record.id,
                difference: format!(
                    "an attachment to node `{node}` that has a different read-only setting"
                ),
            });
        }
        None => {
            driver.ledger.attach(&node)?;
            record.attached.insert(node.clone(), wanted);
            let written = driver.write(image, record).await;
            written.inspect_err(|_| driver.ledger.detach(&node))?;
        }
    }
    Ok(ControllerPublishVolumeResponse::default())
}

/// Notes that a volume is not attached, to one node or to any.
pub(super) async fn unpublish(
    driver: Arc<Driver>,
    request: ControllerUnpublishVolumeRequest,
) -> Result<ControllerUnpublishVolumeResponse, Error> {
    if driver.local(Kind::Volume, &request.volume_id)?.is_none() {
        return Ok(ControllerUnpublishVolumeResponse {});
    }
    let _guard = driver.locks.lock(&request.volume_id)?;
    match driver.claim_volume(&request.volume_id).await {
        Ok((image, record)) => detach(&driver, image, record, &request.node_id).await?,
        Err(Error::VolumeMissing(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(ControllerUnpublishVolumeResponse {})
}

async fn detach(
    driver: &Driver,
    image: Image,
    mut record: VolumeRecord,
    from: &str,
) -> Result<(), Error> {
    let nodes: Vec<NodeId> = record
        .attached
        .keys()
        .filter(|node| from.is_empty() || node.as_str() == from)
        .cloned()
        .collect();
    if nodes.is_empty() {
        return Ok(());
    }
    for node in &nodes {
        record.attached.remove(node);
    }
    driver.write(image, record).await?;
    for node in &nodes {
        driver.ledger.detach(node);
    }
    Ok(())
}

/// A node whose driver uses this state directory.
fn known_node(driver: &Driver, text: &str) -> Result<NodeId, Error> {
    let node: Option<NodeId> = text.parse().ok();
    node.filter(|node| {
        *node == driver.config.node || driver.config.shared && driver.store.knows_node(node)
    })
    .ok_or_else(|| Error::NodeUnknown(text.to_owned()))
}

fn check_other_nodes(record: &VolumeRecord, node: &NodeId, mode: Mode) -> Result<(), Error> {
    let several = matches!(
        mode,
        Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter
    );
    match record.attached.keys().find(|other| *other != node) {
        Some(other) if !several => Err(Error::AttachedElsewhere {
            id: record.id.clone(),
            node: other.to_string(),
        }),
        _ => Ok(()),
    }
}
