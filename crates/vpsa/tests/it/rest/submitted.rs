//! Work that takes longer than the array holds a call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stowage_rest::Deadline;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::state::{self, Object};
use stowage_vpsa::rest::api::{Access, Kind};
use stowage_vpsa::rest::wire::Volume;
use stowage_vpsa::rest::{Outcome, Refusal, follow};

use crate::rest::rig::{Rig, client, done};

/// What is being created is there from now on.
async fn finish(rig: &Rig) {
    let control = rig.array.control();
    for volume in control.objects().await.unwrap().volumes.into_values() {
        let ready_at = volume.created_at;
        let ready = state::Volume { ready_at, ..volume };
        control.put(Object::Volume(ready)).await.unwrap();
    }
}

#[tokio::test]
async fn a_slow_creation_is_submitted_and_followed_to_its_end() {
    let rig = Rig::new().await;
    let control = rig.array.control();
    control
        .turn(|knobs| knobs.creation_delay = 3_600_000)
        .await
        .unwrap();
    let hurried = client(&rig.array, |options| {
        options.timeout = Duration::from_secs(1);
    });
    let api = hurried.within(Duration::from_secs(60));
    let outcome = api
        .create_volume(&rig.new_volume("slow", Kind::Block))
        .await;
    assert_eq!(outcome.unwrap(), Outcome::Submitted);
    let young = api.volume_named("slow").await.unwrap().unwrap();
    assert_eq!(
        (young.status.as_str(), young.is_usable()),
        ("Creating", false)
    );
    let busy = api.expand_volume(&young.id, 1).await.unwrap_err();
    assert_eq!(busy.refusal(), Some(Refusal::Busy), "{busy}");
    let looks = AtomicUsize::new(0);
    let made = follow("create a volume", api.deadline(), async || {
        if looks.fetch_add(1, Ordering::Relaxed) == 2 {
            finish(&rig).await;
        }
        Ok(api.volume_named("slow").await?.filter(Volume::is_usable))
    });
    assert_eq!(made.await.unwrap().id, young.id);
    assert_eq!(looks.into_inner(), 3);
}

#[tokio::test]
async fn a_patient_call_is_held_until_the_work_is_done() {
    let rig = Rig::new().await;
    let control = rig.array.control();
    control
        .turn(|knobs| {
            knobs.creation_delay = 300;
            knobs.expansion_delay = 300;
            knobs.attachment_delay = 300;
            knobs.snapshot_delay = 300;
            knobs.removal_delay = 300;
        })
        .await
        .unwrap();
    let api = rig.api();
    done(api.set_recycle_bin(false).await.unwrap());
    let disk = rig.volume("disk", Kind::Block).await;
    assert!(disk.is_usable());
    done(api.expand_volume(&disk.id, 1).await.unwrap());
    assert_eq!(
        api.volume(&disk.id)
            .await
            .unwrap()
            .unwrap()
            .virtual_capacity,
        11
    );
    let server = rig.server("node", "10.0.0.7").await;
    done(
        api.attach_volume(&server, &disk.id, Access::Block, false)
            .await
            .unwrap(),
    );
    assert_eq!(api.volume_servers(&disk.id).await.unwrap().len(), 1);
    done(api.detach_volume(&disk.id, &[&server]).await.unwrap());
    let snapshot = done(
        api.create_snapshot(disk.cg.as_ref().unwrap(), "s")
            .await
            .unwrap(),
    );
    assert!(api.snapshot(&snapshot).await.unwrap().unwrap().is_usable());
    done(api.delete_snapshot(&snapshot).await.unwrap());
    done(api.delete_volume(&disk.id, false).await.unwrap());
    assert_eq!(api.volume(&disk.id).await.unwrap(), None);
}

#[tokio::test]
async fn every_change_may_be_submitted() {
    let rig = Rig::new().await;
    let api = rig.api();
    let disk = rig.volume("disk", Kind::Block).await;
    let server = rig.server("node", "10.0.0.7").await;
    let cg = disk.cg.clone().unwrap();
    rig.fault("POST", "*", 5, Own::Submitted).await;
    rig.fault("DELETE", "*", 2, Own::Submitted).await;
    let new = rig.new_volume("new", Kind::Nas);
    assert_eq!(api.create_volume(&new).await.unwrap(), Outcome::Submitted);
    assert_eq!(
        api.expand_volume(&disk.id, 1).await.unwrap(),
        Outcome::Submitted
    );
    let attached = api.attach_volume(&server, &disk.id, Access::Block, false);
    assert_eq!(attached.await.unwrap(), Outcome::Submitted);
    assert_eq!(
        api.create_snapshot(&cg, "s").await.unwrap(),
        Outcome::Submitted
    );
    assert_eq!(
        api.clone_volume(&cg, "c", None).await.unwrap(),
        Outcome::Submitted
    );
    let new = api.volume_named("new").await.unwrap().unwrap();
    assert_eq!(
        api.delete_volume(&new.id, false).await.unwrap(),
        Outcome::Submitted
    );
    let snapshot = &api.group_snapshots(&cg).await.unwrap()[0];
    assert_eq!(
        api.delete_snapshot(&snapshot.id).await.unwrap(),
        Outcome::Submitted
    );
    assert_eq!(
        api.volume(&disk.id)
            .await
            .unwrap()
            .unwrap()
            .virtual_capacity,
        11
    );
    assert_eq!(api.volume_servers(&disk.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_submitted_and_forgotten_is_given_up_in_time() {
    let rig = Rig::new().await;
    let api = rig.api();
    rig.fault("POST", "volumes", 1, Own::SubmittedAndForgotten)
        .await;
    let new = rig.new_volume("lost", Kind::Nas);
    assert_eq!(api.create_volume(&new).await.unwrap(), Outcome::Submitted);
    let deadline = Deadline::after(Duration::from_millis(300));
    let never = follow("create a volume", deadline, async || {
        api.volume_named("lost").await
    });
    let late = never.await.unwrap_err().to_string();
    assert!(late.contains("did not create a volume in time"), "{late}");
}
