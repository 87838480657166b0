//! Filesystems, modes and addresses: what pods and networks may have.

use std::fs;
use std::net::{Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, VolumeCapability,
};
use tonic::{Code, Status};

use crate::driver::calls::{GIB, Used};
use crate::driver::life::{size, write};
use crate::driver::rig::{NODE, Rig};

pub fn mounted(filesystem: &str, mode: Mode, flags: &[&str]) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: filesystem.to_owned(),
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..MountVolume::default()
        })),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

/// The kernel's line about a mount point.
pub fn mount_line(point: &Path) -> String {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = format!(" {} ", point.display());
    let line = table.lines().find(|line| line.contains(&point));
    line.unwrap_or_else(|| panic!("{point} in {table}"))
        .to_owned()
}

impl Rig {
    /// Attaches, stages and publishes in this way.
    pub async fn publish_as(
        &mut self,
        used: &mut Used,
        way: &VolumeCapability,
    ) -> Result<PathBuf, Status> {
        self.publish_for(used, way, false).await
    }

    /// The same for a PersistentVolume that may say `csi.readOnly`, of which nodes hear nothing from a kubelet.
    pub async fn publish_for(
        &mut self,
        used: &mut Used,
        way: &VolumeCapability,
        readonly: bool,
    ) -> Result<PathBuf, Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: used.id.clone(),
            node_id: NODE.to_owned(),
            volume_capability: Some(way.clone()),
            readonly,
            ..ControllerPublishVolumeRequest::default()
        };
        let answer = self.controller.controller_publish_volume(request).await?;
        used.context = answer.into_inner().publish_context;
        let request = NodeStageVolumeRequest {
            volume_capability: Some(way.clone()),
            ..self.stage_request(used)
        };
        self.node.node_stage_volume(request).await?;
        let target = self.target(used);
        let request = NodePublishVolumeRequest {
            volume_id: used.id.clone(),
            publish_context: used.context.clone(),
            staging_target_path: self.staging(used),
            target_path: target.display().to_string(),
            volume_capability: Some(way.clone()),
            ..NodePublishVolumeRequest::default()
        };
        self.node.node_publish_volume(request).await?;
        Ok(target)
    }

    /// Attaches a volume to a node in this way.
    async fn attach_to(
        &self,
        node: &str,
        used: &Used,
        way: &VolumeCapability,
    ) -> Result<(), Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: used.id.clone(),
            node_id: node.to_owned(),
            volume_capability: Some(way.clone()),
            ..ControllerPublishVolumeRequest::default()
        };
        let mut controller = self.controller.clone();
        controller
            .controller_publish_volume(request)
            .await
            .map(drop)
    }

    async fn detach_from(&self, node: &str, used: &Used) {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: used.id.clone(),
            node_id: node.to_owned(),
            ..ControllerUnpublishVolumeRequest::default()
        };
        let mut controller = self.controller.clone();
        controller
            .controller_unpublish_volume(request)
            .await
            .unwrap();
    }

    /// A second node, which nobody runs a driver on.
    fn add_node(&self, name: &str) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let known = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VSCNode", "metadata": {"name": name},
            "spec": {"displayName": name, "NAS": {"IP": "10.0.0.2"}, "block": {"IQN": "iqn.2026-01.test:node-2"}}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [node, known]}).to_string();
        self.server
            .kubectl_with_input(&["apply", "-f", "-"], &list)
            .unwrap();
    }
}

isolated! {
    async fn a_volume_for_one_node_is_refused_to_a_second_until_it_has_left_the_first(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        rig.add_node("node-2");
        let one = mounted("", Mode::SingleNodeWriter, &[]);
        let used = rig.create("pvc-1", 1, false, None).await.unwrap();
        // At once: whoever is second is told to wait, or that it is elsewhere.
        let both = tokio::join!(rig.attach_to(NODE, &used, &one), rig.attach_to("node-2", &used, &one));
        let (there, other, refused) = match both {
            (Ok(()), Err(refused)) => (NODE, "node-2", refused),
            (Err(refused), Ok(())) => ("node-2", NODE, refused),
            both => panic!("{both:?}"),
        };
        assert!(matches!(refused.code(), Code::Aborted | Code::FailedPrecondition), "{refused}");
        let refused = rig.attach_to(other, &used, &one).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(&format!("attached to node `{there}`")), "{refused}");
        rig.attach_to(there, &used, &one).await.unwrap();
        assert_eq!(rig.on_array().await, (1, 0, 1));
        rig.detach_from(there, &used).await;
        rig.attach_to(other, &used, &one).await.unwrap();
        rig.detach_from(other, &used).await;

        let many = mounted("", Mode::MultiNodeMultiWriter, &[]);
        for node in [NODE, "node-2"] {
            rig.attach_to(node, &used, &many).await.unwrap();
        }
        for node in [NODE, "node-2"] {
            rig.detach_from(node, &used).await;
        }
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn an_ext4_is_made_filled_counted_and_larger_when_it_is_mounted_again(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let ext4 = mounted("ext4", Mode::SingleNodeWriter, &["noatime"]);
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let place = rig.publish_as(&mut used, &ext4).await.unwrap();
        let line = mount_line(&place);
        assert!(line.contains(" - ext4 ") && line.contains("noatime"), "{line}");
        write(&place.join("file"), &"x".repeat(1 << 20));
        let request = NodeGetVolumeStatsRequest {
            volume_id: used.id.clone(),
            volume_path: place.display().to_string(),
            ..NodeGetVolumeStatsRequest::default()
        };
        let stats = rig.node.node_get_volume_stats(request).await.unwrap().into_inner();
        let bytes = stats.usage.iter().find(|it| it.unit() == Unit::Bytes).unwrap();
        assert!(bytes.used >= 1 << 20 && bytes.used < bytes.available, "{bytes:?}");
        assert!(stats.usage.iter().any(|it| it.unit() == Unit::Inodes && it.used > 0));
        assert!(!stats.volume_condition.unwrap().abnormal);

        let other = mounted("btrfs", Mode::SingleNodeWriter, &[]);
        let refused = rig.publish_as(&mut used, &other).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        // The kernel here may refuse to let an ext4 grow in use: it grows before it is mounted.
        let grow = ControllerExpandVolumeRequest {
            volume_id: used.id.clone(),
            capacity_range: Some(CapacityRange { required_bytes: 2 * GIB, limit_bytes: 0 }),
            ..ControllerExpandVolumeRequest::default()
        };
        rig.controller.controller_expand_volume(grow).await.unwrap();
        rig.unpublish(&used).await.unwrap();
        let place = rig.publish_as(&mut used, &ext4).await.unwrap();
        assert!(size(&place) > GIB as u64 + GIB as u64 / 2, "{}", size(&place));
        assert_eq!(fs::read(place.join("file")).unwrap().len(), 1 << 20);
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn a_share_for_readers_cannot_be_written_and_has_the_options_of_its_class(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let writers = mounted("", Mode::MultiNodeMultiWriter, &["noexec"]);
        let place = rig.publish_as(&mut used, &writers).await.unwrap();
        write(&place.join("file"), "text");
        assert!(mount_line(&PathBuf::from(rig.staging(&used))).contains("noexec"));
        let readers = mounted("", Mode::MultiNodeReaderOnly, &["nodev"]);
        let busy = rig.publish_as(&mut used, &readers).await.unwrap_err();
        assert_eq!(busy.code(), Code::AlreadyExists, "{busy}");
        rig.unpublish(&used).await.unwrap();
        let place = rig.publish_as(&mut used, &readers).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "text");
        let refused = fs::write(place.join("file"), "other").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
        assert!(mount_line(&PathBuf::from(rig.staging(&used))).contains("nodev"));
        let attached = rig.array.control().objects().await.unwrap().attachments;
        assert!(attached.values().all(|it| it.read_only), "the array itself would refuse");
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn shares_and_disks_are_reached_over_ipv6(directory: &Path) {
        let free = || TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap().port();
        let (iscsi, nfs) = (free(), free());
        let local = Ipv6Addr::LOCALHOST.into();
        let mut rig = Rig::with(directory, json!({}), |setting| {
            setting.array.address = vec![local];
            setting.array.iscsi_port = iscsi;
            setting.array.nfs_port = nfs;
            setting.node = local;
        })
        .await;
        let portal = format!("[::1]:{iscsi}");
        let patch = json!({"spec": {"portals": [portal]}}).to_string();
        rig.server.kubectl(&["patch", "vpsas.storage.zadara.com", "one", "--type=merge", "-p", &patch]).unwrap();
        rig.until("vpsa", "one", |it| it["status"]["portals"][0] == portal).await;
        let mut share = rig.create("pvc-1", 1, false, None).await.unwrap();
        let way = mounted("", Mode::MultiNodeMultiWriter, &[&format!("port={nfs}")]);
        let place = rig.publish_as(&mut share, &way).await.unwrap();
        assert!(share.context["share"].starts_with("[::1]:/export/"), "{:?}", share.context);
        write(&place.join("file"), "text");
        let mut disk = rig.create("pvc-2", 1, true, None).await.unwrap();
        rig.publish(&mut disk).await.unwrap();
        assert_eq!(rig.sessions().await, 1);
        for used in [share, disk] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        assert_eq!((rig.sessions().await, rig.on_array().await), (0, (0, 0, 0)));
        let left: Vec<_> = fs::read_dir(rig.path("nodes")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        rig.stop_driver().await;
    }

    async fn a_node_is_known_by_its_own_address_in_the_storage_network(directory: &Path) {
        let mut rig = Rig::with(directory, json!({}), |setting| {
            setting.flags = &["--storage-network=127.0.0.0/24"];
        })
        .await;
        let node = rig.until("vscnode", NODE, |it| it["spec"]["NAS"]["IP"].is_string()).await;
        assert_eq!(node["spec"]["NAS"]["IP"], "127.0.0.1");
        rig.stop_driver().await;
    }

    async fn a_node_that_gets_another_initiator_says_so_and_its_disks_go_on_under_the_new_name(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let known = rig.until("vscnode", NODE, |it| it["spec"]["block"]["IQN"] == "iqn.2026-01.test:node-1").await;
        rig.stop_driver().await;
        fs::write(rig.path("initiatorname.iscsi"), "InitiatorName=iqn.2026-01.test:renamed\n").unwrap();
        rig.start_driver();
        let now = rig.until("vscnode", NODE, |it| it["spec"]["block"]["IQN"] == "iqn.2026-01.test:renamed").await;
        assert_eq!(now["metadata"]["uid"], known["metadata"]["uid"], "it is the same VSCNode");
        assert_eq!(now["spec"]["NAS"], known["spec"]["NAS"]);
        let mut disk = rig.create("pvc-1", 1, true, None).await.unwrap();
        rig.attach(&mut disk).await.unwrap();
        let servers = rig.array.control().objects().await.unwrap().servers;
        let initiators: Vec<&str> = servers.values().map(|it| it.iqn.as_str()).collect();
        assert_eq!(initiators, ["iqn.2026-01.test:renamed"]);
        rig.unpublish(&disk).await.unwrap();
        rig.delete(disk).await;
        rig.stop_driver().await;
    }
}
