//! `CreateSnapshot`, `DeleteSnapshot` and `GetSnapshot`.

use stowage_csi::proto::csi::DeleteSnapshotRequest;
use tonic::Code;

use crate::capability::{ControllerRpc, Need};
use crate::case::{Case, Group};
use crate::check::{Checked, same};
use crate::scene::Scene;

const SNAPSHOT: Need = Need::Controller(ControllerRpc::CreateDeleteSnapshot);
const VOLUME: Need = Need::Controller(ControllerRpc::CreateDeleteVolume);

pub(super) const GET: Group = Group {
    name: "GetSnapshot",
    needs: &[Need::Controller(ControllerRpc::GetSnapshot)],
    cases: &[
        Case::new("refuses a request without a snapshot id", |scene| {
            Box::pin(get_without_id(scene))
        }),
        Case::new("finds a snapshot", |scene| Box::pin(get(scene))).needs(&[SNAPSHOT, VOLUME]),
        Case::new("does not find a snapshot that does not exist", |scene| {
            Box::pin(get_unknown(scene))
        }),
    ],
};

pub(super) const DELETE: Group = Group {
    name: "DeleteSnapshot",
    needs: &[SNAPSHOT],
    cases: &[
        Case::new("refuses a request without a snapshot id", |scene| {
            Box::pin(delete_without_id(scene))
        }),
        Case::new("succeeds for a snapshot that does not exist", |scene| {
            Box::pin(delete_unknown(scene))
        }),
        Case::new("deletes a snapshot", |scene| Box::pin(delete(scene))).needs(&[VOLUME]),
    ],
};

pub(super) const CREATE: Group = Group {
    name: "CreateSnapshot",
    needs: &[SNAPSHOT, VOLUME],
    cases: &[
        Case::new("refuses a request without a name", |scene| {
            Box::pin(without_name(scene))
        }),
        Case::new("refuses a request without a source volume", |scene| {
            Box::pin(without_source(scene))
        }),
        Case::new("gives the same snapshot for the same request", |scene| {
            Box::pin(twice(scene))
        }),
        Case::new("refuses a known name with another source volume", |scene| {
            Box::pin(same_name_other_source(scene))
        }),
        Case::new("takes a name of 128 characters, twice", |scene| {
            Box::pin(longest_name(scene))
        }),
    ],
};

async fn get_without_id(scene: &mut Scene) -> Checked {
    let answer = scene.get_snapshot("").await;
    answer.when("without a snapshot id").refused()
}

async fn get(scene: &mut Scene) -> Checked {
    let made = scene.volume_and_snapshot().await?;
    let answer = scene.get_snapshot(&made.snapshot_id).await.ok()?;
    let found = answer.snapshot.unwrap_or_default();
    same(
        "snapshot_id in GetSnapshot",
        &made.snapshot_id,
        &found.snapshot_id,
    )
}

async fn get_unknown(scene: &mut Scene) -> Checked {
    let id = scene.unknown_snapshot();
    let answer = scene.get_snapshot(&id).await;
    answer.when("of a snapshot that does not exist").refused()
}

fn delete_request(id: &str) -> DeleteSnapshotRequest {
    DeleteSnapshotRequest {
        snapshot_id: id.to_owned(),
        ..Default::default()
    }
}

async fn delete_without_id(scene: &mut Scene) -> Checked {
    let answer = scene.delete_snapshot(delete_request("")).await;
    answer
        .when("without a snapshot id")
        .refused_with(Code::InvalidArgument)
}

async fn delete_unknown(scene: &mut Scene) -> Checked {
    let id = scene.unknown_snapshot();
    let answer = scene.delete_snapshot(delete_request(&id)).await;
    answer.when("of a snapshot that does not exist").ok()?;
    Ok(())
}

async fn delete(scene: &mut Scene) -> Checked {
    let id = scene.volume_and_snapshot().await?.snapshot_id;
    scene.delete_snapshot(delete_request(&id)).await.ok()?;
    Ok(())
}

async fn without_name(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    let mut request = scene.snapshot_request(&volume.volume_id);
    request.name.clear();
    let answer = scene.create_snapshot(request).await;
    answer
        .when("without a name")
        .refused_with(Code::InvalidArgument)
}

async fn without_source(scene: &mut Scene) -> Checked {
    let request = scene.snapshot_request("");
    let answer = scene.create_snapshot(request).await;
    answer
        .when("without a source volume")
        .refused_with(Code::InvalidArgument)
}

async fn twice(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    let request = scene.snapshot_request(&volume.volume_id);
    let first = scene.create_snapshot(request.clone()).await.snapshot()?;
    same(
        "source_volume_id in CreateSnapshot",
        &volume.volume_id,
        &first.source_volume_id,
    )?;
    let answer = scene.create_snapshot(request).await;
    let second = answer.when("for the second time").snapshot()?;
    same(
        "snapshot_id of the second CreateSnapshot",
        &first.snapshot_id,
        &second.snapshot_id,
    )
}

async fn same_name_other_source(scene: &mut Scene) -> Checked {
    let first = scene.volume().await?;
    let second = scene.volume().await?;
    let mut request = scene.snapshot_request(&first.volume_id);
    scene.create_snapshot(request.clone()).await.snapshot()?;
    request.source_volume_id = second.volume_id;
    let answer = scene.create_snapshot(request).await;
    answer
        .when("with a known name and another source volume")
        .refused_with(Code::AlreadyExists)
}

async fn longest_name(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    let mut request = scene.snapshot_request(&volume.volume_id);
    request.name = scene.longest_name();
    let answer = scene.create_snapshot(request.clone()).await;
    let first = answer.when("with a name of 128 characters").snapshot()?;
    let answer = scene.create_snapshot(request).await;
    let second = answer
        .when("with a name of 128 characters, for the second time")
        .snapshot()?;
    same(
        "snapshot_id of the second CreateSnapshot",
        &first.snapshot_id,
        &second.snapshot_id,
    )
}
