//! `ListSnapshots`.

use std::collections::BTreeSet;

use stowage_csi::proto::csi::{DeleteSnapshotRequest, ListSnapshotsRequest};

use crate::capability::{ControllerRpc, Need};
use crate::case::{Case, Group};
use crate::check::{Checked, ensure, same};
use crate::scene::{Scene, snapshot_ids};

/// Needed by all cases that look at a snapshot of their own.
const SNAPSHOTS: &[Need] = &[
    Need::Controller(ControllerRpc::CreateDeleteSnapshot),
    Need::Controller(ControllerRpc::CreateDeleteVolume),
];
const PAGE: i32 = 2;
const ENOUGH_FOR_PAGES: usize = 5;

pub(super) const LIST: Group = Group {
    name: "ListSnapshots",
    needs: &[Need::Controller(ControllerRpc::ListSnapshots)],
    cases: &[
        Case::new("lists complete snapshots", |scene| Box::pin(list(scene))),
        Case::new("finds one snapshot by its id", |scene| {
            Box::pin(by_id(scene))
        })
        .needs(SNAPSHOTS),
        Case::new(
            "finds nothing for a snapshot that does not exist",
            |scene| Box::pin(by_unknown_id(scene)),
        ),
        Case::new("finds one snapshot by its source volume", |scene| {
            Box::pin(by_source(scene))
        })
        .needs(SNAPSHOTS),
        Case::new(
            "finds nothing for a source volume that does not exist",
            |scene| Box::pin(by_unknown_source(scene)),
        ),
        Case::new(
            "shows a snapshot from its creation to its deletion",
            |scene| Box::pin(list_follows_snapshots(scene)),
        )
        .needs(SNAPSHOTS)
        .alone(),
        Case::new("gives the pages it is asked for", |scene| {
            Box::pin(pages(scene))
        })
        .needs(SNAPSHOTS)
        .alone(),
    ],
};

fn by_snapshot(id: &str) -> ListSnapshotsRequest {
    ListSnapshotsRequest {
        snapshot_id: id.to_owned(),
        ..Default::default()
    }
}

fn by_volume(id: &str) -> ListSnapshotsRequest {
    ListSnapshotsRequest {
        source_volume_id: id.to_owned(),
        ..Default::default()
    }
}

/// A driver without snapshots would pass without being looked at, so there is one if possible.
async fn one_if_possible(scene: &mut Scene) -> Checked {
    for need in SNAPSHOTS {
        if !scene.has(*need)? {
            return Ok(());
        }
    }
    scene.volume_and_snapshot().await?;
    Ok(())
}

async fn list(scene: &mut Scene) -> Checked {
    one_if_possible(scene).await?;
    scene.all_snapshots(ListSnapshotsRequest::default()).await?;
    Ok(())
}

fn only(what: &str, expected: &str, got: &[String]) -> Checked {
    ensure(
        got == [expected],
        what,
        format!("`{expected}` and no other snapshot"),
        format!("{} snapshots: {got:?}", got.len()),
    )
}

fn nothing(what: &str, got: &[String]) -> Checked {
    ensure(
        got.is_empty(),
        what,
        "no snapshots",
        format!("{} snapshots: {got:?}", got.len()),
    )
}

/// There are two, so that a driver which ignores the question cannot give the right answer.
async fn by_id(scene: &mut Scene) -> Checked {
    let wanted = scene.volume_and_snapshot().await?;
    scene.volume_and_snapshot().await?;
    let request = by_snapshot(&wanted.snapshot_id);
    let got = scene.all_snapshots(request).await?;
    only(
        "ListSnapshots with a snapshot_id",
        &wanted.snapshot_id,
        &got,
    )
}

async fn by_unknown_id(scene: &mut Scene) -> Checked {
    one_if_possible(scene).await?;
    let request = by_snapshot(&scene.unknown_snapshot());
    let got = scene.all_snapshots(request).await?;
    nothing("ListSnapshots with an unknown snapshot_id", &got)
}

async fn by_source(scene: &mut Scene) -> Checked {
    let wanted = scene.volume_and_snapshot().await?;
    scene.volume_and_snapshot().await?;
    let request = by_volume(&wanted.source_volume_id);
    let got = scene.all_snapshots(request).await?;
    only(
        "ListSnapshots with a source_volume_id",
        &wanted.snapshot_id,
        &got,
    )
}

async fn by_unknown_source(scene: &mut Scene) -> Checked {
    one_if_possible(scene).await?;
    let request = by_volume(&scene.unknown_volume());
    let got = scene.all_snapshots(request).await?;
    nothing("ListSnapshots with an unknown source_volume_id", &got)
}

async fn list_follows_snapshots(scene: &mut Scene) -> Checked {
    let all = ListSnapshotsRequest::default;
    let before = scene.all_snapshots(all()).await?;
    let id = scene.volume_and_snapshot().await?.snapshot_id;

    let with = scene.all_snapshots(all()).await?;
    ensure(
        with.contains(&id),
        "ListSnapshots after CreateSnapshot",
        format!("an entry for `{id}`"),
        "none",
    )?;
    let expected = before.len() + 1;
    same(
        "number of snapshots after CreateSnapshot",
        &expected,
        &with.len(),
    )?;

    let delete = DeleteSnapshotRequest {
        snapshot_id: id.clone(),
        ..Default::default()
    };
    scene.delete_snapshot(delete).await.ok()?;
    let after = scene.all_snapshots(all()).await?;
    ensure(
        !after.contains(&id),
        "ListSnapshots after DeleteSnapshot",
        format!("no entry for `{id}`"),
        "one",
    )?;
    same(
        "number of snapshots after DeleteSnapshot",
        &before.len(),
        &after.len(),
    )
}

async fn pages(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    for _ in 0..ENOUGH_FOR_PAGES {
        scene.snapshot(&volume.volume_id).await?;
    }
    let all = scene.all_snapshots(ListSnapshotsRequest::default()).await?;

    let request = ListSnapshotsRequest {
        max_entries: PAGE,
        ..Default::default()
    };
    let page = scene.list_snapshots(request).await;
    let page = page.when("with max_entries = 2").ok()?;
    let first = snapshot_ids(&page)?;
    same("entries on a page of max_entries = 2", &2, &first.len())?;
    ensure(
        !page.next_token.is_empty(),
        "next_token of a page that is not the last",
        "a token",
        "none",
    )?;

    let request = ListSnapshotsRequest {
        starting_token: page.next_token,
        ..Default::default()
    };
    let rest = scene.all_snapshots(request).await?;
    let both = first.iter().chain(&rest);
    ensure(
        first.len() + rest.len() == all.len()
            && both.collect::<BTreeSet<_>>() == all.iter().collect::<BTreeSet<_>>(),
        "ListSnapshots with the starting_token of the first page",
        format!(
            "the other {} of {} snapshots",
            all.len() - first.len(),
            all.len()
        ),
        format!("{rest:?} after {first:?}"),
    )
}
