//! Filesystems that are mounted by NFS: always, or for as long as the node's Weka client does not work.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::isolated;
use serde_json::{Value, json};
use stowage_csi::proto::csi::NodeGetInfoRequest;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::nfs::host::{Host, HostOptions};
use stowage_sim::nfs::share::Network;
use stowage_sim::weka::Options;
use stowage_sim::weka::control::Trouble;
use stowage_sim::weka::control::frontends::Stage;
use stowage_sim::weka::state::InterfaceGroup;
use tonic::Code;

use crate::cluster::Cluster;
use crate::rig::{ALLOWED, FILESYSTEMS, GIB, Rig, SNAPSHOTS, expect, map, of_snapshot};

const MODE: Mode = Mode::MultiNodeMultiWriter;

/// Everything is allowed, and NFS.
pub const BY_NFS: [&str; 4] = [ALLOWED[0], ALLOWED[1], ALLOWED[2], "--usenfs"];

/// A cluster that serves NFS, once an interface group says where, and a node that mounts from it.
pub async fn start(directory: &Path, ip: Option<&str>) -> (Cluster, Host) {
    start_with(directory, ip, |_| {}).await
}

async fn start_with(
    directory: &Path,
    ip: Option<&str>,
    change: impl FnOnce(&mut Options),
) -> (Cluster, Host) {
    let cluster = Cluster::start(directory, |options| {
        options.nfs = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(options);
    })
    .await;
    let host = Host::start(&HostOptions {
        socket: directory.join("nfs.sock"),
        network: Network {
            ip: ip.map(|ip| ip.parse::<IpAddr>().unwrap()),
            port: cluster.array.nfs().unwrap().port(),
        },
    });
    (cluster, host.unwrap())
}

/// The cluster serves at an address of this machine.
pub async fn add_interface_group(cluster: &Cluster, name: &str) {
    let group = InterfaceGroup {
        uid: format!("uid-of-{name}"),
        name: name.to_owned(),
        kind: "NFS".to_owned(),
        ips: vec!["127.0.0.1".to_owned()],
        status: "OK".to_owned(),
        gateway: String::new(),
        subnet_mask: String::new(),
    };
    let control = cluster.array.control();
    control.add_interface_group(group).await.unwrap();
}

/// How the volume of a pod is mounted.
fn kind(rig: &Rig, pod: &str) -> String {
    let target = rig.target(pod);
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let lines = text
        .lines()
        .filter(|line| line.split(' ').nth(4) == target.to_str());
    let kinds: Vec<_> = lines
        .map(|line| {
            line.split(" - ")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(kinds.len(), 1, "{kinds:?}");
    kinds[0].clone()
}

/// The kubelet writes what it is told as a label, and refuses a driver that says otherwise later.
async fn assert_no_transport_is_told(rig: &Rig) {
    let info = rig
        .node
        .clone()
        .node_get_info(NodeGetInfoRequest {})
        .await
        .unwrap();
    let topology = info.into_inner().accessible_topology.unwrap();
    let keys: Vec<_> = topology.segments.into_keys().collect();
    assert!(
        !keys.iter().any(|it| it.ends_with("/transport")),
        "{keys:?}"
    );
}

async fn names(cluster: &Cluster, path: &str, field: &str) -> Vec<String> {
    let all = cluster.call("GET", path, None).await;
    let all = all.as_array().unwrap().iter();
    all.map(|one: &Value| one[field].as_str().unwrap().to_owned())
        .collect()
}

isolated! {
    async fn volumes_of_every_kind_live_by_nfs(directory: &Path) {
        let (cluster, _host) = start_with(directory, None, |options| options.nfs_delay = Duration::from_millis(700)).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 8 * GIB })).await;
        // There is no Weka client at all.
        std::fs::remove_file(directory.join("modules")).unwrap();
        let rig = Rig::start(directory, &cluster, &BY_NFS);
        expect(rig.create("early", GIB, &[]).await, Code::FailedPrecondition, &["interface group", "`nfsTargetIps`"]);
        add_interface_group(&cluster, "first").await;
        assert_no_transport_is_told(&rig).await;
        let mut ids = Vec::new();
        for (kind_of, class) in [("dir", &[][..]), ("fs", &FILESYSTEMS[..]), ("snap", &SNAPSHOTS[..])] {
            let id = rig.create(kind_of, GIB, class).await.unwrap_or_else(|error| panic!("{kind_of}: {error}")).volume_id;
            let target = rig.publish(&id, "pod", MODE).await.unwrap_or_else(|error| panic!("{kind_of}: {error}"));
            rig.publish(&id, "pod", MODE).await.unwrap();
            assert_eq!(kind(&rig, "pod"), "fuse.nfs", "{kind_of}");
            std::fs::write(target.join("file"), kind_of).unwrap();
            let file = std::fs::File::create(target.join("large")).unwrap();
            assert!(file.set_len(2 * GIB).is_err(), "{kind_of}: its quota holds");
            rig.expand(&id, 3 * GIB).await.unwrap();
            file.set_len(2 * GIB).unwrap();
            file.set_len(0).unwrap();
            drop(file);
            assert!(rig.stats(&id, "pod").await.unwrap().usage[0].total > 0);
            let reader = rig.publish(&id, "reader", Mode::MultiNodeReaderOnly).await.unwrap();
            assert!(std::fs::write(reader.join("other"), "").is_err(), "{kind_of}: it is read-only");
            let snapshot = rig.snapshot(&format!("{kind_of}-snapshot"), &id).await.unwrap().snapshot_id;
            let copy = rig.copy(&format!("{kind_of}-copy"), 4 * GIB, of_snapshot(&snapshot), class).await.unwrap().volume_id;
            let restored = rig.publish(&copy, "restored", MODE).await.unwrap();
            assert_eq!(std::fs::read_to_string(restored.join("file")).unwrap(), kind_of);
            for (id, pod) in [(&id, "pod"), (&id, "reader"), (&copy, "restored")] {
                rig.unpublish(id, pod).await.unwrap();
            }
            ids.push((id, snapshot, copy));
        }
        assert_eq!(names(&cluster, "nfs/clientGroups", "name").await, ["WekaCSIPluginClients"]);
        let rules = cluster.call("GET", "nfs/clientGroups", None).await[0]["rules"].clone();
        assert_eq!((rules.as_array().unwrap().len(), &rules[0]["rule"]), (1, &json!("127.0.0.1/255.255.255.255")));
        for (id, snapshot, copy) in ids {
            rig.delete(&copy).await.unwrap();
            rig.delete_snapshot(&snapshot).await.unwrap();
            rig.delete(&id).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        }
        // That of the filesystem which was a volume went with it.
        let mut left = names(&cluster, "nfs/permissions", "filesystem").await;
        left.sort();
        assert_eq!(left, ["default", "empty"]);
        assert_eq!(cluster.filesystems().await, ["default", "empty"]);
        rig.stop().await;
    }

    async fn a_node_without_permission_is_told_why(directory: &Path) {
        let (cluster, _host) = start(directory, Some("127.0.0.2")).await;
        add_interface_group(&cluster, "first").await;
        // The group has what the driver would give it, but this node comes from another address than it knows of itself.
        let group = cluster.call("POST", "nfs/clientGroups", Some(json!({ "name": "mine" }))).await;
        let rules = format!("nfs/clientGroups/{}/rules", group["uid"].as_str().unwrap());
        cluster.call("POST", &rules, Some(json!({ "ip": "127.0.0.1/255.255.255.255" }))).await;
        let permission = json!({ "filesystem": "default", "group": "mine", "supported_versions": ["V3", "V4"] });
        cluster.call("POST", "nfs/permissions", Some(permission)).await;
        let rig = Rig::start(directory, &cluster, &["--usenfs", "--clientgroupname=mine"]);
        let remedy = ["access denied by server", "127.0.0.1", "`mine`", "`default`", "add a rule", "hostNetwork"];
        expect(rig.create("one", GIB, &[]).await, Code::FailedPrecondition, &remedy);
        rig.stop().await;
        let read_only = json!({ "filesystem": "default", "group": "readers", "permission_type": "RO", "supported_versions": ["V4"] });
        cluster.call("POST", "nfs/clientGroups", Some(json!({ "name": "readers" }))).await;
        cluster.call("POST", "nfs/permissions", Some(read_only)).await;
        let rig = Rig::start(directory, &cluster, &["--usenfs", "--clientgroupname=readers"]);
        expect(rig.create("one", GIB, &[]).await, Code::FailedPrecondition, &["`readers`", "`default`", "change its permission"]);
        rig.stop().await;
        let nowhere = [&BY_NFS[..], &["--interfacegroupname=second"]].concat();
        let rig = Rig::start(directory, &cluster, &nowhere);
        for class in [&[][..], &FILESYSTEMS] {
            expect(rig.create("one", GIB, class).await, Code::FailedPrecondition, &["`second`", "--interfacegroupname"]);
        }
        let rig = rig.legacy();
        expect(rig.create("one", GIB, &[]).await, Code::InvalidArgument, &["NFS", "API"]);
        rig.stop().await;
        assert_eq!(cluster.volumes(), Vec::<String>::new());
        assert_eq!(cluster.filesystems().await, ["default"], "nothing is half-made");
        // Addresses of the secret count without any interface group.
        let rig = Rig::start(directory, &cluster, &["--usenfs", "--interfacegroupname=second", "--clientgroupname=all"]);
        let all = cluster.call("POST", "nfs/clientGroups", Some(json!({ "name": "all" }))).await;
        let rules = format!("nfs/clientGroups/{}/rules", all["uid"].as_str().unwrap());
        cluster.call("POST", &rules, Some(json!({ "ip": "127.0.0.0/8" }))).await;
        let mut rig = rig;
        rig.secret.extend(map(&[("nfsTargetIps", "127.0.0.1")]));
        rig.create("one", GIB, &[]).await.unwrap();
        let rules = cluster.call("GET", "nfs/clientGroups?name=all", None).await[0]["rules"].clone();
        assert_eq!(rules.as_array().unwrap().len(), 1, "a network that has the node needs no rule for it");
        rig.stop().await;
    }

    async fn a_server_that_does_not_answer_is_left_for_the_next(directory: &Path) {
        let (cluster, _host) = start(directory, None).await;
        add_interface_group(&cluster, "first").await;
        let port = cluster.array.nfs().unwrap().port();
        // It takes connections and says nothing. Of several filesystems, half begin with it.
        let silent = TcpListener::bind(("127.0.0.9", port)).unwrap();
        let mut rig = Rig::start(directory, &cluster, &BY_NFS);
        rig.secret.extend(map(&[("nfsTargetIps", "127.0.0.9,127.0.0.1")]));
        // Whoever asks it waits for longer than this, and a volume takes a tenth of it.
        let long = Duration::from_secs(5);
        let (mut ids, mut held_up) = (Vec::new(), 0);
        for number in 0..6 {
            let began = Instant::now();
            let made = rig.create(&format!("fs-{number}"), GIB, &FILESYSTEMS).await;
            ids.push(made.unwrap().volume_id);
            held_up += usize::from(began.elapsed() > long);
        }
        assert!(held_up <= 1, "who was left once is not asked again: {held_up}");
        for id in &ids {
            rig.publish(id, "pod", MODE).await.unwrap();
            rig.unpublish(id, "pod").await.unwrap();
            rig.delete(id).await.unwrap();
        }
        drop(silent);
        rig.stop().await;
    }

    async fn a_filesystem_that_could_not_be_completed_is_gone_with_its_permission(directory: &Path) {
        let (cluster, _host) = start(directory, None).await;
        add_interface_group(&cluster, "first").await;
        let rig = Rig::start(directory, &cluster, &BY_NFS);
        // The array takes no quota for it, and says so for good.
        cluster.fault("PUT", "fileSystems/*/quota/*", 100, Trouble::Refuse(400)).await;
        expect(rig.create("fs", GIB, &FILESYSTEMS).await, Code::Internal, &["quota"]);
        assert_eq!(cluster.filesystems().await, ["default"], "nothing stays behind");
        assert_eq!(names(&cluster, "nfs/permissions", "filesystem").await, Vec::<String>::new());
        rig.stop().await;
    }

    async fn a_filesystem_that_nodes_mounted_by_nfs_is_deleted_by_a_controller_that_does_not(directory: &Path) {
        let (cluster, _host) = start(directory, None).await;
        add_interface_group(&cluster, "first").await;
        let of_nodes = [&BY_NFS[..], &["--clientgroupname=of-nodes"]].concat();
        let rig = Rig::start(directory, &cluster, &of_nodes);
        let id = rig.create("fs", GIB, &FILESYSTEMS).await.unwrap().volume_id;
        rig.stop().await;
        assert_eq!(names(&cluster, "nfs/permissions", "group").await, ["of-nodes"]);
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        rig.delete(&id).await.unwrap();
        assert_eq!(cluster.filesystems().await, ["default"]);
        assert_eq!(names(&cluster, "nfs/permissions", "group").await, Vec::<String>::new());
        rig.stop().await;
    }

    async fn a_node_that_loses_its_client_goes_on_by_nfs_and_comes_back(directory: &Path) {
        let (cluster, _host) = start(directory, None).await;
        add_interface_group(&cluster, "first").await;
        let rig = Rig::start(directory, &cluster, &["--allownfsfailback"]);
        let id = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let target = rig.publish(&id, "by-client", MODE).await.unwrap();
        std::fs::write(target.join("file"), "one").unwrap();
        assert_eq!(kind(&rig, "by-client"), "fuse.wekafs");
        assert_eq!(names(&cluster, "nfs/clientGroups", "name").await, Vec::<String>::new(), "nothing is prepared");

        let lost = Stage { connected: false, ..Stage::default() };
        set_stage(&cluster, &rig, lost).await;
        let second = rig.publish(&id, "by-nfs", MODE).await.unwrap();
        assert_eq!(kind(&rig, "by-nfs"), "fuse.nfs");
        assert_eq!(std::fs::read_to_string(second.join("file")).unwrap(), "one");
        std::fs::write(second.join("file"), "two").unwrap();
        // What is published stays as it is, however the node would mount it now.
        rig.publish(&id, "by-client", MODE).await.unwrap();
        assert_eq!(kind(&rig, "by-client"), "fuse.wekafs");
        let made = rig.create("made", GIB, &[]).await.unwrap().volume_id;

        set_stage(&cluster, &rig, Stage::default()).await;
        let third = rig.publish(&id, "back", MODE).await.unwrap();
        assert_eq!(kind(&rig, "back"), "fuse.wekafs");
        assert_eq!(std::fs::read_to_string(third.join("file")).unwrap(), "two");
        rig.publish(&id, "by-nfs", MODE).await.unwrap();
        for pod in ["by-client", "by-nfs", "back"] {
            rig.unpublish(&id, pod).await.unwrap();
        }
        for id in [id, made] {
            rig.delete(&id).await.unwrap();
        }
        rig.stop().await;
    }

    async fn what_another_driver_published_by_nfs_is_taken_over(directory: &Path) {
        let (cluster, _host) = start(directory, None).await;
        add_interface_group(&cluster, "first").await;
        let rig = Rig::start(directory, &cluster, &["--usenfs"]);
        let id = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        let inner = id.strip_prefix("dir/v1/default/").unwrap();
        let (parent, target) = (directory.join("parent"), rig.target("pod"));
        for place in [&parent, &target] {
            std::fs::create_dir_all(place).unwrap();
        }
        let run = |arguments: &[&str]| {
            let status = std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap();
            assert!(status.success(), "{arguments:?}");
        };
        run(&["mount", "-t", "nfs", "-o", "vers=4.1", "127.0.0.1:/default", parent.to_str().unwrap()]);
        run(&["mount", "--bind", parent.join(inner).to_str().unwrap(), target.to_str().unwrap()]);
        run(&["umount", parent.to_str().unwrap()]);
        std::fs::write(target.join("file"), "old").unwrap();
        rig.publish(&id, "pod", MODE).await.unwrap();
        assert_eq!(kind(&rig, "pod"), "fuse.nfs", "never stacked");
        assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "old");
        rig.unpublish(&id, "pod").await.unwrap();
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }
}

/// Lets the node's client be like this, and waits until the kernel's files say so.
async fn set_stage(cluster: &Cluster, rig: &Rig, stage: Stage) {
    let connected = stage.connected;
    cluster
        .array
        .control()
        .set_stage("client", stage)
        .await
        .unwrap();
    let interface = rig.directory.join("interface");
    crate::rig::eventually("the client's state", || {
        let said = std::fs::read_to_string(&interface).unwrap_or_default();
        said.contains("Connected frontend") == connected
    })
    .await;
}
