//! Disks over iSCSI, with our own initiator: who gets in, what they see, what they may do.

use serde_json::json;
use stowage_sim::iscsi::initiator::{Failure, Login, LoginError, Session, discover};
use stowage_sim::iscsi::scsi::Sense;

use crate::vpsa::rig::Rig;

const GB: u64 = 1 << 30;

fn refusal(result: Result<Session, LoginError>) -> Option<(u8, u8)> {
    match result {
        Err(LoginError::Refused(class, detail)) => Some((class, detail)),
        Err(LoginError::Unreachable(error)) => panic!("{error}"),
        Ok(_) => None,
    }
}

#[tokio::test]
async fn who_gets_in_is_decided_by_server_secret_and_attachment() {
    let rig = Rig::with_data().await;
    let login = rig.login("node").await;
    assert_eq!(
        refusal(Session::log_in(&login).await),
        Some((2, 2)),
        "no server record"
    );
    let server = rig.server("node", "10.0.0.7").await;
    assert_eq!(
        refusal(Session::log_in(&login).await),
        Some((2, 2)),
        "nothing attached"
    );
    let disk = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &disk, json!({})).await;
    assert_eq!(refusal(Session::log_in(&login).await), None);
    let chap = login.chap.clone().unwrap();
    for wrong in [
        None,
        Some((chap.0.clone(), "wrong-wrong-wrong".to_owned())),
        Some(("nobody".to_owned(), chap.1.clone())),
    ] {
        let login = Login {
            chap: wrong,
            ..login.clone()
        };
        assert_eq!(refusal(Session::log_in(&login).await), Some((2, 1)));
    }
    let elsewhere = Login {
        target: "iqn.other".to_owned(),
        ..login.clone()
    };
    assert_eq!(refusal(Session::log_in(&elsewhere).await), Some((2, 3)));
    let stranger = Login {
        initiator: "iqn.stranger".to_owned(),
        ..login
    };
    assert_eq!(refusal(Session::log_in(&stranger).await), Some((2, 2)));
}

#[tokio::test]
async fn each_host_sees_its_own_disks_under_its_own_numbers() {
    let rig = Rig::with_data().await;
    let (a, b) = (
        rig.server("a", "10.0.0.1").await,
        rig.server("b", "10.0.0.2").await,
    );
    let (one, two) = (
        rig.volume("one", "YES", 1).await,
        rig.volume("two", "YES", 2).await,
    );
    rig.attach(&a, &one, json!({})).await;
    rig.attach(&a, &two, json!({})).await;
    rig.attach(&b, &two, json!({"readonly": "YES"})).await;
    let at_a = Session::log_in(&rig.login("a").await).await.unwrap();
    let at_b = Session::log_in(&rig.login("b").await).await.unwrap();
    assert_eq!(at_a.luns().await.unwrap(), [0, 1]);
    assert_eq!(at_b.luns().await.unwrap(), [0]);
    assert_eq!(at_a.size(1).await.unwrap(), 2 * GB);
    let wwids = [at_a.wwid(1).await.unwrap(), at_b.wwid(0).await.unwrap()];
    assert_eq!(wwids[0], wwids[1], "one disk");
    assert_ne!(wwids[0], at_a.wwid(0).await.unwrap());
    assert_eq!(wwids[0].len(), 33);

    let block = vec![7; 4096];
    at_a.write(1, GB, &block).await.unwrap();
    at_a.synchronize(1).await.unwrap();
    assert_eq!(at_b.read(0, GB, 4096).await.unwrap(), block);
    assert!(at_b.is_read_only(0).await.unwrap() && !at_a.is_read_only(1).await.unwrap());
    let refused = at_b.write(0, 0, &block).await.unwrap_err();
    assert!(
        matches!(refused, Failure::Check(Sense::WRITE_PROTECTED)),
        "{refused}"
    );
    let beyond = at_a.read(1, 2 * GB, 512).await.unwrap_err();
    assert!(
        matches!(beyond, Failure::Check(Sense::OUT_OF_RANGE)),
        "{beyond}"
    );
    let missing = at_b.read(1, 0, 512).await.unwrap_err();
    assert!(
        matches!(missing, Failure::Check(Sense::NO_UNIT)),
        "{missing}"
    );
}

#[tokio::test]
async fn a_large_transfer_arrives_as_it_was_sent() {
    let rig = Rig::with_data().await;
    let server = rig.server("node", "10.0.0.1").await;
    let disk = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &disk, json!({})).await;
    let session = Session::log_in(&rig.login("node").await).await.unwrap();
    let data: Vec<u8> = (0..5_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    session.write(0, 512, &data).await.unwrap();
    let read = session.read(0, 512, data.len() as u64).await.unwrap();
    assert!(read == data);
    let file = std::fs::File::open(rig.data.path().join(format!("volumes/{disk}/disk"))).unwrap();
    let mut on_disk = vec![0; data.len()];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut on_disk, 512).unwrap();
    assert!(on_disk == data, "it is in the volume's file");
}

#[tokio::test]
async fn what_is_detached_is_gone_at_once_and_what_grew_is_larger() {
    let rig = Rig::with_data().await;
    let server = rig.server("node", "10.0.0.1").await;
    let (one, two) = (
        rig.volume("one", "YES", 1).await,
        rig.volume("two", "YES", 1).await,
    );
    rig.attach(&server, &one, json!({})).await;
    let session = Session::log_in(&rig.login("node").await).await.unwrap();
    rig.attach(&server, &two, json!({})).await;
    assert_eq!(session.luns().await.unwrap(), [0, 1], "without a new login");
    rig.post(&format!("volumes/{two}/expand"), json!({"capacity": "3G"}))
        .await
        .fields();
    assert_eq!(session.size(1).await.unwrap(), 4 * GB);
    session.write(1, 3 * GB, &[1; 512]).await.unwrap();
    rig.detach(&server, &two).await;
    let fenced = session.write(1, 0, &[2; 512]).await.unwrap_err();
    assert!(matches!(fenced, Failure::Check(Sense::NO_UNIT)), "{fenced}");
    assert_eq!(session.luns().await.unwrap(), [0]);
    session.ping().await.unwrap();
    session.log_out().await.unwrap();
    assert_eq!(rig.array.control().sessions().await.unwrap(), []);
}

#[tokio::test]
async fn sessions_are_seen_and_end_with_the_array() {
    let rig = Rig::with_data().await;
    let server = rig.server("node", "10.0.0.1").await;
    let disk = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &disk, json!({})).await;
    let login = rig.login("node").await;
    let session = Session::log_in(&login).await.unwrap();
    let seen = rig.array.control().sessions().await.unwrap();
    assert_eq!((seen.len(), seen[0].server.as_str()), (1, server.as_str()));
    rig.array.control().set_data(false).await.unwrap();
    assert!(session.ping().await.is_err());
    let away = Session::log_in(&login).await;
    assert!(matches!(away, Err(LoginError::Unreachable(_))));
    rig.array.control().set_data(true).await.unwrap();
    let session = Session::log_in(&login).await.unwrap();
    rig.array.control().fail_over().await.unwrap();
    assert!(session.ping().await.is_err(), "its controller went");
    Session::log_in(&login).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_and_its_clone_hold_what_was_there() {
    let rig = Rig::with_data().await;
    let server = rig.server("node", "10.0.0.1").await;
    let disk = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &disk, json!({})).await;
    let session = Session::log_in(&rig.login("node").await).await.unwrap();
    session.write(0, 0, &[1; 4096]).await.unwrap();
    let cg = disk.replace("volume", "cg");
    let taken = rig
        .post(
            &format!("consistency_groups/{cg}/snapshots"),
            json!({"display_name": "s"}),
        )
        .await;
    let snapshot = taken.fields()["snapshot_name"].clone();
    session.write(0, 0, &[2; 4096]).await.unwrap();
    let body = json!({"name": "clone", "snapshot": snapshot});
    rig.post(&format!("consistency_groups/{cg}/clone"), body)
        .await
        .fields();
    let clone = loop {
        let found = rig.get("volumes?display_name=clone").await;
        match &found.fields()["volumes"][0] {
            found if found["status"] == "Available" => {
                break found["name"].as_str().unwrap().to_owned();
            }
            _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    rig.attach(&server, &clone, json!({})).await;
    assert_eq!(session.read(1, 0, 4096).await.unwrap(), [1; 4096]);
    assert_eq!(session.read(0, 0, 4096).await.unwrap(), [2; 4096]);
    session.write(1, 0, &[3; 4096]).await.unwrap();
    assert_eq!(session.read(0, 0, 4096).await.unwrap(), [2; 4096]);
}

#[tokio::test]
async fn discovery_tells_every_portal() {
    let rig = Rig::start(|options| {
        options.no_data = false;
        options.address = vec![
            crate::vpsa::rig::own_address(),
            crate::vpsa::rig::own_address(),
        ];
    })
    .await;
    let login = rig.login("node").await;
    let found = discover(login.portal, None, "iqn.anybody").await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, login.target);
    assert_eq!(found[0].1.len(), 2);
    assert_eq!(found[0].1[0], (login.portal, 1));
    let server = rig.server("node", "10.0.0.1").await;
    let disk = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &disk, json!({})).await;
    for (portal, _) in &found[0].1 {
        let path = Login {
            portal: *portal,
            ..login.clone()
        };
        let session = Session::log_in(&path).await.unwrap();
        assert_eq!(session.luns().await.unwrap(), [0]);
    }
}

#[tokio::test]
async fn a_host_without_a_name_is_known_by_its_address() {
    let rig = Rig::with_data().await;
    let source = crate::vpsa::rig::own_address();
    let body = json!({"display_name": "node", "iscsi": source.to_string()});
    let server = rig.post("servers", body).await.fields()["server_name"].clone();
    let disk = rig.volume("disk", "YES", 1).await;
    rig.attach(server.as_str().unwrap(), &disk, json!({})).await;
    let login = rig.login("anybody").await;
    assert_eq!(refusal(Session::log_in(&login).await), Some((2, 2)));
    let from_there = Login {
        source: Some(source),
        ..login
    };
    assert_eq!(refusal(Session::log_in(&from_there).await), None);
}
