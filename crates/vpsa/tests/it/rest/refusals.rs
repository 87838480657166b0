//! Every refusal of the array, and what the client makes of it.

use std::collections::BTreeMap;

use stowage_sim::vpsa::state::Object;
use stowage_vpsa::rest::api::{Access, Kind, NewServer, NewVolume};
use stowage_vpsa::rest::{ApiError, Refusal, VolumeId};

use crate::rest::rig::{Rig, done};

fn meaning<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Option<Refusal> {
    let error = result.unwrap_err();
    assert!(!error.is_unreachable(), "{error}");
    error.refusal()
}

#[tokio::test]
async fn what_a_new_volume_is_refused_for_is_told_apart() {
    let rig = Rig::new().await;
    let api = rig.api();
    rig.volume("taken", Kind::Nas).await;
    let new = |name| rig.new_volume(name, Kind::Nas);
    assert_eq!(
        meaning(api.create_volume(&new("taken")).await),
        Some(Refusal::NameTaken)
    );
    assert_eq!(
        meaning(api.create_volume(&new("it's")).await),
        Some(Refusal::Invalid)
    );
    let large = NewVolume {
        capacity: 100_000,
        ..new("large")
    };
    assert_eq!(
        meaning(api.create_volume(&large).await),
        Some(Refusal::NoRoom)
    );
    let nowhere = "pool-0000ffff".parse().unwrap();
    let nowhere = NewVolume {
        pool: &nowhere,
        ..new("nowhere")
    };
    assert_eq!(
        meaning(api.create_volume(&nowhere).await),
        Some(Refusal::NotFound)
    );
    let odd: BTreeMap<_, _> = [("colour".to_owned(), "red".to_owned())].into();
    let odd = NewVolume {
        options: &odd,
        ..new("odd")
    };
    let error = api.create_volume(&odd).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Invalid));
    assert!(error.to_string().contains("colour"), "{error}");
}

#[tokio::test]
async fn a_pool_that_protects_itself_takes_nothing_new() {
    let rig = Rig::new().await;
    let api = rig.api();
    let volume = rig.volume("there", Kind::Block).await;
    let cg = volume.cg.clone().unwrap();
    for mode in ["protected", "emergency"] {
        let mut pool = rig.array.control().objects().await.unwrap().pools["pool-00010001"].clone();
        pool.mode = mode.to_owned();
        rig.array.control().put(Object::Pool(pool)).await.unwrap();
        let new = rig.new_volume("new", Kind::Block);
        assert_eq!(
            meaning(api.create_volume(&new).await),
            Some(Refusal::NoRoom)
        );
        assert_eq!(
            meaning(api.create_snapshot(&cg, "s").await),
            Some(Refusal::NoRoom)
        );
        assert_eq!(
            meaning(api.clone_volume(&cg, "c", None).await),
            Some(Refusal::NoRoom)
        );
        assert_eq!(
            meaning(api.expand_volume(&volume.id, 1).await),
            Some(Refusal::NoRoom)
        );
        let pool = api.pool(&rig.pool).await.unwrap().unwrap();
        assert_eq!(pool.capacity_mode().as_str(), mode);
    }
}

#[tokio::test]
async fn what_is_in_use_is_not_deleted() {
    let rig = Rig::new().await;
    let api = rig.api();
    let (disk, server) = (
        rig.volume("disk", Kind::Block).await,
        rig.server("node", "10.0.0.7").await,
    );
    done(
        api.attach_volume(&server, &disk.id, Access::Block, false)
            .await
            .unwrap(),
    );
    assert_eq!(
        meaning(api.delete_volume(&disk.id, false).await),
        Some(Refusal::Attached)
    );
    assert_eq!(
        meaning(api.delete_server(&server).await),
        Some(Refusal::Attached)
    );
    let moved = NewServer {
        display_name: "node",
        ip: Some("10.0.0.8"),
        iqn: None,
        chap: None,
    };
    assert_eq!(
        meaning(api.configure_server(&server, &moved).await),
        Some(Refusal::Attached)
    );
    done(api.detach_volume(&disk.id, &[&server]).await.unwrap());
    let cg = disk.cg.clone().unwrap();
    let snapshot = done(api.create_snapshot(&cg, "s").await.unwrap());
    assert_eq!(
        meaning(api.delete_volume(&disk.id, false).await),
        Some(Refusal::HasSnapshots)
    );
    assert_eq!(
        meaning(api.create_snapshot(&cg, "s").await),
        Some(Refusal::NameTaken)
    );
    done(api.delete_snapshot(&snapshot).await.unwrap());
    done(api.delete_volume(&disk.id, false).await.unwrap());
}

#[tokio::test]
async fn what_is_not_there_is_none_or_refused() {
    let rig = Rig::new().await;
    let api = rig.api();
    let nobody: VolumeId = "volume-0000ffff".parse().unwrap();
    let server = rig.server("node", "10.0.0.7").await;
    assert_eq!(api.volume(&nobody).await.unwrap(), None);
    assert_eq!(
        api.pool(&"pool-0000ffff".parse().unwrap()).await.unwrap(),
        None
    );
    assert_eq!(
        meaning(api.expand_volume(&nobody, 1).await),
        Some(Refusal::NotFound)
    );
    assert_eq!(
        meaning(api.rename_volume(&nobody, "n").await),
        Some(Refusal::NotFound)
    );
    assert_eq!(
        meaning(api.volume_servers(&nobody).await),
        Some(Refusal::NotFound)
    );
    let attached = api.attach_volume(&server, &nobody, Access::Block, false);
    assert_eq!(meaning(attached.await), Some(Refusal::NotFound));
    let cg = "cg-0000ffff".parse().unwrap();
    assert_eq!(
        meaning(api.create_snapshot(&cg, "s").await),
        Some(Refusal::NotFound)
    );
    assert_eq!(
        meaning(api.clone_volume(&cg, "c", None).await),
        Some(Refusal::NotFound)
    );
}

#[tokio::test]
async fn one_host_has_one_server() {
    let rig = Rig::new().await;
    rig.server("node", "10.0.0.7").await;
    for (name, ip, iqn) in [
        ("node", "10.0.0.8", "iqn.x"),
        ("other", "10.0.0.7", "iqn.x"),
        ("other", "10.0.0.8", "iqn.2026-01.test:node"),
    ] {
        let new = NewServer {
            display_name: name,
            ip: Some(ip),
            iqn: Some(iqn),
            chap: None,
        };
        let refused = rig.api().create_server(&new).await;
        assert_eq!(meaning(refused), Some(Refusal::NameTaken), "{new:?}");
    }
    let nothing = NewServer {
        display_name: "other",
        ip: None,
        iqn: None,
        chap: None,
    };
    assert_eq!(
        meaning(rig.api().create_server(&nothing).await),
        Some(Refusal::Invalid)
    );
}
