//! How objects look: the array's field names, whose `name` is an identity and whose `display_name` is a name.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::moment::Millis;
use crate::vpsa::release::Feature;
use crate::vpsa::state::{
    Attachment, Controller, DataType, Pool, Server, Snapshot, State, Volume, pools, snapshots,
};

/// What objects are shown with.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Everything else.
    pub state: &'a State,
    /// When.
    pub now: Millis,
    /// The array's addresses for data.
    pub addresses: &'a [IpAddr],
}

impl View<'_> {
    /// A volume.
    pub fn volume(self, volume: &Volume) -> Value {
        let state = self.state;
        let capacity = volume.capacity_at(self.now);
        let attachments: Vec<&Attachment> = state.attachments_of(&volume.id).collect();
        let servers = attachments
            .iter()
            .filter_map(|a| state.servers.get(&a.server));
        let names: Vec<_> = servers.map(|server| server.display_name.as_str()).collect();
        let ids: Vec<_> = attachments.iter().map(|a| a.server.as_str()).collect();
        let (is_disk, first) = (volume.data_type == DataType::Block, attachments.first());
        let option = |name: &str| volume.options.get(name).map_or("NO", String::as_str);
        let export = match self.addresses.first() {
            Some(address) if !is_disk => {
                format!("{}:/export/{}", host(*address), volume.export_name)
            }
            _ => String::new(),
        };
        let pool = state.pools.get(&volume.pool);
        json!({
            "name": volume.id,
            "display_name": volume.display_name,
            "cg_name": volume.cg,
            "cg_display_name": volume.display_name,
            "cg_user_created": "NO",
            "pool_name": volume.pool,
            "pool_display_name": pool.map(|pool| pool.display_name.clone()),
            "status": self.status(volume, !attachments.is_empty()),
            "virtual_capacity": capacity,
            "provisioned_capacity": capacity,
            "allocated_capacity": 0.0,
            "data_copies_capacity": 0.0,
            "data_type": if is_disk { "BLOCK" } else { "File-System" },
            "thin": "YES",
            "encryption": option("crypt"),
            "server_name": names.join(","),
            "server_ext_names": ids.join(","),
            "access_type": if is_disk { "iSCSI" } else { "NFS" },
            "read_only": yes(first.is_some_and(|a| a.read_only)),
            "target": if is_disk { state.target() } else { String::new() },
            "lun": first.map(|attachment| attachment.lun),
            "export_name": if is_disk { "" } else { volume.export_name.as_str() },
            "nfs_export_path": export,
            "smb_export_path": "",
            "nfs_root_squash": option("nfsrootsquash"),
            "has_snapshots": yes(snapshots::of_group(state, &volume.cg).next().is_some()),
            "autoexpand": option("autoexpand"),
            "comment": volume.comment,
            "created_at": self.moment(volume.created_at),
            "modified_at": self.moment(volume.created_at),
        })
    }

    fn status(self, volume: &Volume, attached: bool) -> String {
        let word = match &volume.failure {
            Some(failure) => failure,
            None if volume.removed_at.is_some() => "Deleting",
            None if !volume.filled || volume.ready_at > self.now => "Creating",
            None if volume.growth.is_some_and(|(_, at)| at > self.now) => "Expanding",
            None if attached => "In-use",
            None => "Available",
        };
        word.to_owned()
    }

    /// A snapshot. The list of all snapshots tells more than that of a group.
    pub fn snapshot(self, snapshot: &Snapshot, of_all: bool) -> Value {
        let volume = self.state.volumes.get(&snapshot.volume);
        let status = match snapshot.removed_at {
            Some(_) => "deleting",
            None if !snapshot.filled || snapshot.ready_at > self.now => "creating",
            None => "normal",
        };
        let mut shown = json!({
            "name": snapshot.id,
            "display_name": snapshot.display_name,
            "status": status,
            "cg_name": snapshot.cg,
            "cg_display_name": volume.map(|volume| volume.display_name.clone()),
            "pool_name": volume.map(|volume| volume.pool.clone()),
            "created_at": self.moment(snapshot.created_at),
            "modified_at": self.moment(snapshot.created_at),
        });
        if of_all {
            shown["volume_ext_name"] = json!(snapshot.volume);
            shown["volume_display_name"] = json!(volume.map(|volume| &volume.display_name));
            shown["volume_capacity_mb"] = json!(snapshot.capacity * 1024);
        }
        shown
    }

    /// A server.
    pub fn server(self, server: &Server) -> Value {
        let used = self.state.attachments_to(&server.id).next().is_some();
        json!({
            "name": server.id,
            "display_name": server.display_name,
            "iqn": server.iqn,
            "iscsi_ip": server.ip,
            "status": "Active",
            "pm_status": if used { "In-use" } else { "Available" },
            "vpsa_chap_user": server.chap_user,
            "vpsa_chap_secret": server.chap_secret,
            "host_chap_user": "",
            "host_chap_secret": "",
            "ipsec_iscsi": "NO",
            "ipsec_nfs": "NO",
            "created_at": self.moment(server.created_at),
            "modified_at": self.moment(server.created_at),
        })
    }

    /// A server in the list of those that a volume is attached to.
    pub fn attached_server(self, server: &Server, attachment: &Attachment) -> Value {
        let volume = self.state.volumes.get(&attachment.volume);
        let is_disk = volume.is_some_and(|volume| volume.data_type == DataType::Block);
        let is_finished = attachment.ready_at <= self.now;
        let mut shown = self.server(server);
        shown["target"] = json!(if is_disk && is_finished {
            self.state.target()
        } else {
            String::new()
        });
        shown["lun"] = json!(is_finished.then_some(attachment.lun));
        shown["read_only"] = json!(yes(attachment.read_only));
        shown["access_type"] = json!(if is_disk { "iSCSI" } else { "NFS" });
        shown
    }

    /// A pool.
    pub fn pool(self, pool: &Pool) -> Value {
        json!({
            "name": pool.id,
            "display_name": pool.display_name,
            "status": pool.status,
            "mode": pool.mode,
            "type": "Transactional",
            "capacity": pool.capacity,
            "available_capacity": pools::available(self.state, pool),
            "provisioned_capacity": pools::provisioned(self.state, &pool.id),
        })
    }

    /// A controller; data goes through the active ones, each of which has an address of its own.
    pub fn controller(self, controller: &Controller) -> Value {
        let controllers = self.state.controllers.values();
        let mut active = controllers.filter(|it| it.state == "active");
        let number = active.position(|it| it.id == controller.id);
        let address = |wanted: fn(&IpAddr) -> bool| {
            let mut addresses = self.addresses.iter().filter(|address| wanted(address));
            let found = number.and_then(|number| addresses.nth(number));
            found.map(ToString::to_string).unwrap_or_default()
        };
        let vpsa = self.state.vpsa();
        json!({
            "name": controller.id,
            "display_name": controller.id,
            "state": controller.state,
            "target": self.state.target(),
            "iscsi_ip": address(IpAddr::is_ipv4),
            "iscsi_ipv6": address(IpAddr::is_ipv6),
            "mgmt_ip": "",
            "software_ver": vpsa.release,
            "heartbeat1": "connected",
            "heartbeat2": "connected",
            "vpsa_chap_user": vpsa.chap_user,
            "vpsa_chap_secret": vpsa.chap_secret,
        })
    }

    fn moment(self, at: Millis) -> String {
        let at = i64::try_from(at).ok();
        let at = at
            .and_then(|at| Timestamp::from_millisecond(at).ok())
            .unwrap_or_default();
        let iso = self.state.vpsa().release.has(Feature::IsoMoments);
        let form = if iso {
            "%Y-%m-%dT%H:%M:%S+00:00"
        } else {
            "%Y-%m-%d %H:%M:%S UTC"
        };
        at.strftime(form).to_string()
    }
}

/// As a path of an export has it.
fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn yes(on: bool) -> &'static str {
    if on { "YES" } else { "NO" }
}
