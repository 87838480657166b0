//! Every call, as it should go.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use stowage_api::vpsa::CapacityMode;
use stowage_rest::Deadline;
use stowage_vpsa::rest::api::{Access, Chap, Kind, NewServer, NewVolume};
use stowage_vpsa::rest::wire::{DataType, Health};
use stowage_vpsa::rest::{Outcome, follow};
use stowage_vpsa::version::Version;

use crate::rest::rig::{Rig, done};

#[tokio::test]
async fn an_array_tells_what_it_is() {
    let rig = Rig::with(|options| options.release = Some("22.06-sp1-123".parse().unwrap())).await;
    let api = rig.api();
    let controllers = api.vcontrollers().await.unwrap();
    assert_eq!(controllers.len(), 2);
    let active: Vec<_> = controllers.iter().filter(|one| one.is_active()).collect();
    assert_eq!(active.len(), 1);
    let version: Version = active[0].software_ver.parse().unwrap();
    assert!(version.is_supported() && version.is_legacy());
    assert!(active[0].target.starts_with("iqn.2011-04.com.zadara"));
    assert_eq!(active[0].data_address(), Some("127.0.0.1"));
    assert!(!active[0].vpsa_chap_user.is_empty());
    assert!(active[0].vpsa_chap_secret.expose_secret().len() >= 12);

    let pools = api.pools().await.unwrap();
    assert_eq!(pools.len(), 1);
    assert_eq!(pools[0].id, rig.pool);
    assert_eq!(pools[0].capacity_mode(), CapacityMode::Normal);
    assert!((pools[0].capacity - 1000.0).abs() < 0.1);
    let pool = api.pool(&rig.pool).await.unwrap().unwrap();
    assert_eq!(pool, pools[0]);
    let drives = api.drives().await.unwrap();
    assert!(!drives.is_empty() && drives.iter().all(|drive| drive.health() == Health::Healthy));
    let groups = api.raid_groups().await.unwrap();
    assert!(!groups.is_empty() && groups.iter().all(|group| group.health() == Health::Healthy));
    let config = api.config().await.unwrap();
    assert_eq!(config["software_version"], "22.06-sp1-123");
}

#[tokio::test]
async fn a_volume_lives_from_creation_to_the_recycle_bin_and_out_of_it() {
    let rig = Rig::new().await;
    let api = rig.api();
    let share = rig.volume("share", Kind::Nas).await;
    assert_eq!(
        (share.display_name.as_str(), share.virtual_capacity),
        ("share", 10)
    );
    assert_eq!(
        (share.status.as_str(), share.data_type),
        ("Available", DataType::FileSystem)
    );
    assert_eq!(share.nfs_export_path, "127.0.0.1:/export/share");
    assert_eq!(share.pool.as_ref(), Some(&rig.pool));
    let disk = rig.volume("disk", Kind::Block).await;
    assert_eq!(disk.data_type, DataType::Block);
    assert!(disk.created_at.is_some());
    assert_eq!(api.volumes().await.unwrap().len(), 2);
    assert_eq!(api.volume_named("disk").await.unwrap().unwrap().id, disk.id);
    assert_eq!(api.volume_named("dis").await.unwrap(), None);

    done(api.expand_volume(&disk.id, 5).await.unwrap());
    assert_eq!(
        api.volume(&disk.id)
            .await
            .unwrap()
            .unwrap()
            .virtual_capacity,
        15
    );
    for _ in 0..2 {
        done(api.rename_volume(&disk.id, "renamed").await.unwrap());
        done(api.comment_volume(&disk.id, "nice").await.unwrap());
    }
    let changed = api.volume(&disk.id).await.unwrap().unwrap();
    assert_eq!(
        (changed.display_name.as_str(), changed.comment.as_str()),
        ("renamed", "nice")
    );

    for _ in 0..2 {
        done(api.delete_volume(&disk.id, false).await.unwrap());
    }
    assert_eq!(api.volume(&disk.id).await.unwrap(), None);
    let recycled = api.recycle_bin(&rig.pool).await.unwrap();
    assert_eq!(recycled.len(), 1);
    assert_eq!(recycled[0].id, disk.id);
    for _ in 0..2 {
        done(api.purge_volume(&disk.id).await.unwrap());
    }
    assert_eq!(api.recycle_bin(&rig.pool).await.unwrap(), []);

    done(api.set_recycle_bin(false).await.unwrap());
    done(api.delete_volume(&share.id, false).await.unwrap());
    assert_eq!(api.recycle_bin(&rig.pool).await.unwrap(), []);
    assert_eq!(api.volumes().await.unwrap(), []);
}

#[tokio::test]
async fn options_are_passed_on_and_what_is_ours_is_not_taken_from_them() {
    let rig = Rig::new().await;
    let options: BTreeMap<String, String> = [
        ("nfsanonuid", "65500"),
        ("autoexpand", "YES"),
        ("maxcapacity", "2000G"),
        ("autoexpandby", "10G"),
        ("name", "other"),
        ("pool", "other"),
        ("capacity", "999G"),
        ("block", "YES"),
        ("access_key", "other"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let new = NewVolume {
        options: &options,
        ..rig.new_volume("mine", Kind::Nas)
    };
    let id = done(rig.api().create_volume(&new).await.unwrap());
    let made = rig.api().volume(&id).await.unwrap().unwrap();
    assert_eq!(
        (made.display_name.as_str(), made.virtual_capacity),
        ("mine", 10)
    );
    assert!(made.autoexpand);
    let state = rig.array.control().objects().await.unwrap();
    let kept = &state.volumes[id.as_str()].options;
    assert_eq!(kept["nfsanonuid"], "65500");
    assert_eq!(kept["nfsrootsquash"], "NO");
    assert_eq!(kept["attachpolicies"], "NO");
}

#[tokio::test]
async fn volumes_are_attached_numbered_and_detached() {
    let rig = Rig::new().await;
    let api = rig.api();
    let server = rig.server("node", "10.0.0.7").await;
    let share = rig.volume("share", Kind::Nas).await;
    let mut luns = Vec::new();
    for name in ["one", "two"] {
        let disk = rig.volume(name, Kind::Block).await;
        for _ in 0..2 {
            let attached = api.attach_volume(&server, &disk.id, Access::Block, false);
            done(attached.await.unwrap());
        }
        let attached = api.volume_servers(&disk.id).await.unwrap();
        assert_eq!(attached.len(), 1);
        assert_eq!(attached[0].server.id, server);
        assert!(attached[0].target.starts_with("iqn.2011-04.com.zadara"));
        assert_eq!(attached[0].server.iscsi_ip, "10.0.0.7");
        luns.push(attached[0].lun);
    }
    assert_eq!(luns, [Some(0), Some(1)]);
    done(
        api.attach_volume(&server, &share.id, Access::Nfs, true)
            .await
            .unwrap(),
    );
    let attached = api.volume_servers(&share.id).await.unwrap();
    assert!(attached[0].read_only);
    let share = api.volume(&share.id).await.unwrap().unwrap();
    assert_eq!(
        (share.status.as_str(), share.servers.as_slice()),
        ("In-use", [server.clone()].as_slice())
    );
    assert_eq!(api.server_volumes(&server).await.unwrap().len(), 3);
    for volume in api.server_volumes(&server).await.unwrap() {
        for _ in 0..2 {
            done(api.detach_volume(&volume.id, &[&server]).await.unwrap());
        }
    }
    assert!(api.server_volumes(&server).await.unwrap().is_empty());
    for _ in 0..2 {
        done(api.delete_server(&server).await.unwrap());
    }
    assert!(api.server(&server).await.unwrap().is_none());
}

#[tokio::test]
async fn servers_are_made_changed_and_renamed() {
    let rig = Rig::new().await;
    let api = rig.api();
    let secret = SecretString::from("chap-secret-1");
    let new = NewServer {
        display_name: "node",
        ip: Some("10.0.0.0/24"),
        iqn: None,
        chap: Some(Chap {
            user: "chap-user",
            secret: &secret,
        }),
    };
    let id = done(api.create_server(&new).await.unwrap());
    let server = api.server(&id).await.unwrap().unwrap();
    assert_eq!(server.vpsa_chap_user, "chap-user");
    assert_eq!(server.vpsa_chap_secret.expose_secret(), "chap-secret-1");
    let changed = NewServer {
        ip: Some("10.0.0.8"),
        iqn: Some("iqn.x"),
        chap: None,
        ..new
    };
    for _ in 0..2 {
        done(api.configure_server(&id, &changed).await.unwrap());
        done(api.rename_server(&id, "other").await.unwrap());
        done(api.rename_server(&id, "node").await.unwrap());
    }
    let servers = api.servers().await.unwrap();
    assert_eq!(servers.len(), 1);
    assert_eq!(
        (servers[0].iqn.as_str(), servers[0].iscsi_ip.as_str()),
        ("iqn.x", "10.0.0.8")
    );
    assert_eq!(servers[0].vpsa_chap_user, "chap-user", "kept");
}

#[tokio::test]
async fn snapshots_are_taken_cloned_and_deleted() {
    let rig = Rig::new().await;
    let api = rig.api();
    let volume = rig.volume("source", Kind::Block).await;
    let cg = volume.cg.clone().unwrap();
    let id = done(api.create_snapshot(&cg, "snapshot-1").await.unwrap());
    let snapshot = api.snapshot(&id).await.unwrap().unwrap();
    assert!(snapshot.is_usable());
    assert_eq!(snapshot.volume.as_ref(), Some(&volume.id));
    assert_eq!(snapshot.volume_capacity_mb, 10 * 1024);
    assert_eq!(api.group_snapshots(&cg).await.unwrap().len(), 1);
    assert_eq!(api.snapshots().await.unwrap().len(), 1);
    assert!(api.volume(&volume.id).await.unwrap().unwrap().has_snapshots);
    done(api.rename_snapshot(&id, "renamed").await.unwrap());
    assert_eq!(
        api.snapshot(&id).await.unwrap().unwrap().display_name,
        "renamed"
    );

    for (name, from) in [("of-snapshot", Some(&id)), ("of-now", None)] {
        let group = done(api.clone_volume(&cg, name, from).await.unwrap());
        let deadline = Deadline::after(std::time::Duration::from_secs(20));
        let clone = follow("clone a volume", deadline, async || {
            let found = api.volume_named(name).await?;
            Ok(found.filter(stowage_vpsa::rest::wire::Volume::is_usable))
        });
        let clone = clone.await.unwrap();
        assert_eq!(
            (clone.cg.as_ref(), clone.virtual_capacity),
            (Some(&group), 10)
        );
        assert_ne!(clone.id, volume.id);
    }
    for _ in 0..2 {
        assert_eq!(api.delete_snapshot(&id).await.unwrap(), Outcome::Done(()));
    }
    assert_eq!(api.snapshot(&id).await.unwrap(), None);
}
