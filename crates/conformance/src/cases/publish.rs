//! `ControllerPublishVolume`, `ControllerUnpublishVolume`, and a volume's life between them.

use stowage_csi::proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use tonic::Code;

use crate::capability::{ControllerRpc, Need};
use crate::case::{Case, Group};
use crate::check::{Checked, Stop, same};
use crate::scene::Scene;

const PUBLISH_UNPUBLISH: Need = Need::Controller(ControllerRpc::PublishUnpublishVolume);
const CREATE_DELETE: Need = Need::Controller(ControllerRpc::CreateDeleteVolume);

pub(super) const PUBLISH: Group = Group {
    name: "ControllerPublishVolume",
    needs: &[PUBLISH_UNPUBLISH],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(without_volume(scene))
        }),
        Case::new("refuses a request without a node id", |scene| {
            Box::pin(without_node(scene))
        }),
        Case::new("refuses a request without a capability", |scene| {
            Box::pin(without_capability(scene))
        }),
        Case::new("does not find a volume that does not exist", |scene| {
            Box::pin(unknown_volume(scene))
        }),
        Case::new("does not find a node that does not exist", |scene| {
            Box::pin(unknown_node(scene))
        })
        .needs(&[CREATE_DELETE]),
        Case::new(
            "refuses a published volume with another readonly",
            |scene| Box::pin(other_readonly(scene)),
        )
        .needs(&[
            CREATE_DELETE,
            Need::Controller(ControllerRpc::PublishReadonly),
        ]),
        Case::new("refuses one volume more than the node takes", |scene| {
            Box::pin(beyond_the_limit(scene))
        })
        .needs(&[CREATE_DELETE])
        .alone(),
    ],
};

pub(super) const LIFECYCLE: Group = Group {
    name: "Volume lifecycle",
    needs: &[PUBLISH_UNPUBLISH, CREATE_DELETE],
    cases: &[
        Case::new("creates and publishes a volume", |scene| {
            Box::pin(life(scene))
        }),
        Case::new(
            "gives the same answers when every call is repeated",
            |scene| Box::pin(repeated_life(scene)),
        ),
    ],
};

pub(super) const UNPUBLISH: Group = Group {
    name: "ControllerUnpublishVolume",
    needs: &[PUBLISH_UNPUBLISH],
    cases: &[Case::new(
        "refuses a request without a volume id",
        |scene| Box::pin(unpublish_without_volume(scene)),
    )],
};

/// A request in which everything is there; cases take one thing out.
async fn request(scene: &mut Scene) -> Checked<ControllerPublishVolumeRequest> {
    Ok(ControllerPublishVolumeRequest {
        volume_id: scene.some_volume().await?,
        node_id: scene.node_id()?,
        volume_capability: Some(scene.capability()),
        ..Default::default()
    })
}

async fn without_volume(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.volume_id.clear();
    let answer = scene.controller_publish(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn without_node(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.node_id.clear();
    let answer = scene.controller_publish(request).await;
    answer
        .when("without a node id")
        .refused_with(Code::InvalidArgument)
}

async fn without_capability(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.volume_capability = None;
    let answer = scene.controller_publish(request).await;
    answer
        .when("without a capability")
        .refused_with(Code::InvalidArgument)
}

async fn unknown_volume(scene: &mut Scene) -> Checked {
    let request = ControllerPublishVolumeRequest {
        volume_id: scene.unknown_volume(),
        node_id: scene.node_id()?,
        volume_capability: Some(scene.capability()),
        ..Default::default()
    };
    let answer = scene.controller_publish(request).await;
    answer
        .when("of a volume that does not exist")
        .refused_with(Code::NotFound)
}

async fn unknown_node(scene: &mut Scene) -> Checked {
    let volume = scene.volume_here().await?;
    let mut request = scene.publish_request(&volume)?;
    request.node_id = scene.unknown_node();
    let answer = scene.controller_publish(request).await;
    answer
        .when("on a node that does not exist")
        .refused_with(Code::NotFound)
}

async fn other_readonly(scene: &mut Scene) -> Checked {
    let volume = scene.volume_here().await?;
    let mut request = scene.publish_request(&volume)?;
    scene.controller_publish(request.clone()).await.ok()?;
    request.readonly = true;
    let answer = scene.controller_publish(request).await;
    answer
        .when("of a published volume, now with readonly")
        .refused_with(Code::AlreadyExists)
}

async fn beyond_the_limit(scene: &mut Scene) -> Checked {
    if !scene.options().attach_limit {
        let reason = "it may make very many volumes: --attach-limit turns it on";
        return Err(Stop::Skipped(reason.to_owned()));
    }
    let limit = scene.driver().facts.node_info()?.max_volumes_per_node;
    if limit == 0 {
        let reason = "the node reports no limit (max_volumes_per_node is 0)";
        return Err(Stop::Skipped(reason.to_owned()));
    }
    for _ in 0..limit {
        let volume = scene.volume_here().await?;
        let request = scene.publish_request(&volume)?;
        let answer = scene.controller_publish(request).await;
        answer.when("up to max_volumes_per_node").ok()?;
    }
    let volume = scene.volume_here().await?;
    let request = scene.publish_request(&volume)?;
    let answer = scene.controller_publish(request).await;
    answer.when("beyond max_volumes_per_node").refused()
}

/// The clean-up unpublishes and deletes, and fails the case if it cannot.
async fn life(scene: &mut Scene) -> Checked {
    let volume = scene.volume_here().await?;
    let request = scene.publish_request(&volume)?;
    scene.controller_publish(request).await.ok()?;
    Ok(())
}

async fn repeated_life(scene: &mut Scene) -> Checked {
    let create = scene.volume_request_here()?;
    let volume = scene.create_volume(create.clone()).await.volume()?;
    for _ in 1..scene.options().repeat {
        let answer = scene.create_volume(create.clone()).await;
        let again = answer.when("repeated").volume()?;
        same(
            "volume_id of a repeated CreateVolume",
            &volume.volume_id,
            &again.volume_id,
        )?;
    }
    let publish = scene.publish_request(&volume)?;
    scene.controller_publish(publish.clone()).await.ok()?;
    for _ in 1..scene.options().repeat {
        let answer = scene.controller_publish(publish.clone()).await;
        answer.when("repeated").ok()?;
    }
    Ok(())
}

async fn unpublish_without_volume(scene: &mut Scene) -> Checked {
    let request = ControllerUnpublishVolumeRequest {
        node_id: scene.node_id()?,
        ..Default::default()
    };
    let answer = scene.controller_unpublish(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}
