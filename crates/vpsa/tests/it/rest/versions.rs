//! Versions spell things differently; the client reads all of them alike.

use stowage_vpsa::rest::Refusal;
use stowage_vpsa::rest::api::Kind;
use stowage_vpsa::version::Version;

use crate::rest::rig::Rig;

#[tokio::test]
async fn every_version_is_read_alike() {
    for release in [
        "19.08-1",
        "20.12-sp2-240",
        "22.06-1000",
        "23.03-1",
        "23.09-sp1-100",
        "00.00-2979",
    ] {
        let rig = Rig::with(|options| options.release = Some(release.parse().unwrap())).await;
        let api = rig.api();
        let volume = rig.volume("v", Kind::Block).await;
        assert_eq!(volume.virtual_capacity, 10, "{release}");
        assert!(volume.created_at.is_some(), "{release}");
        let taken = api
            .create_volume(&rig.new_volume("v", Kind::Block))
            .await
            .unwrap_err();
        assert_eq!(taken.refusal(), Some(Refusal::NameTaken), "{release}");
        assert!(
            taken.to_string().contains("already exists"),
            "{release}: {taken}"
        );
        let pool = api.pool(&rig.pool).await.unwrap().unwrap();
        assert!((pool.available_capacity - 990.0).abs() < 0.1, "{release}");
        let controllers = api.vcontrollers().await.unwrap();
        let version: Version = controllers[0].software_ver.parse().unwrap();
        assert_eq!(version.to_string(), release);
        assert_eq!(version.is_supported(), release != "19.08-1");
    }
}

#[tokio::test]
async fn an_upgrade_is_seen_at_the_next_call() {
    let rig = Rig::with(|options| options.release = Some("20.12-sp2-240".parse().unwrap())).await;
    let before = rig.api().vcontrollers().await.unwrap()[0].target.clone();
    rig.array.control().upgrade("23.03-1").await.unwrap();
    let after = rig.api().vcontrollers().await.unwrap();
    assert_eq!(after[0].software_ver, "23.03-1");
    assert_ne!(after[0].target, before, "targets have longer names now");
}
