//! Sessions that are left: whose they are, and who ends them.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::isolated;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::json;
use stowage_sim::vpsa::host::tools::iscsiadm;
use tonic::Code;

use crate::driver::rig::{Rig, own_address};
use crate::driver::tools::SOCKET;

/// Has a device for itself.
pub fn alone(device: &Path) -> fs::File {
    let mut options = fs::File::options();
    let flags = rustix::fs::OFlags::EXCL.bits().cast_signed();
    options.read(true).custom_flags(flags).open(device).unwrap()
}

impl Rig {
    /// Runs the node's `iscsiadm`, as a person does.
    fn iscsiadm(&self, line: &str) {
        let arguments = line.split(' ').map(str::to_owned).collect();
        let printed = iscsiadm(arguments, &self.path(SOCKET));
        assert_eq!(printed.code, 0, "{line}: {printed:?}");
    }

    /// Settings go after the session.
    async fn settings_are_gone(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read_dir(self.path("nodes")).unwrap().next().is_some() {
            assert!(Instant::now() < deadline, "settings stay");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn sessions_are(&self, expected: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.sessions().await != expected {
            assert!(Instant::now() < deadline, "not {expected} sessions");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

isolated! {
    async fn a_driver_that_starts_ends_sessions_that_nobody_uses_and_no_others(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        assert_eq!(rig.sessions().await, 1);
        rig.stop_driver().await;
        rig.start_driver();
        // It has looked through all sessions once it answers for one that it would have to make.
        rig.publish(&mut used).await.unwrap();
        rig.sessions_are(1).await;

        rig.stop_driver().await;
        for place in [rig.target(&used), rig.staging(&used).into()] {
            unmount(&place, UnmountFlags::empty()).unwrap();
        }
        rig.start_driver();
        rig.sessions_are(0).await;
        rig.settings_are_gone().await;

        // A session that somebody else made through another interface is theirs.
        let objects = rig.array.control().objects().await.unwrap();
        let target = rig.array.control().status().await.unwrap().target;
        let (user, secret) = (&objects.vpsa().chap_user, &objects.vpsa().chap_secret);
        let place = format!("-m node -T {target} -p {}:3260", own_address(1));
        rig.iscsiadm(&format!("{place} -o new"));
        for (name, value) in [("authmethod", "CHAP"), ("username", user), ("password", secret)] {
            let setting = format!("node.session.auth.{name} -v {value}");
            rig.iscsiadm(&format!("{place} -o update -n {setting}"));
        }
        rig.iscsiadm(&format!("{place} --login"));
        rig.stop_driver().await;
        rig.start_driver();
        rig.publish(&mut used).await.unwrap();
        rig.unpublish(&used).await.unwrap();
        assert_eq!(rig.sessions().await, 1, "it was used and left");
        rig.iscsiadm(&format!("{place} --logout"));
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn disks_that_something_else_on_the_node_has_are_left_to_it_with_their_session(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let mut other = rig.create("pvc-2", 1, true, None).await.unwrap();
        rig.attach(&mut other).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        // As LVM, md and mounts of other containers have one: no table of mounts tells.
        let held = alone(&rig.device(&other.context["lun"]));
        rig.unpublish(&used).await.unwrap();
        assert_eq!(rig.sessions().await, 1);
        rig.stop_driver().await;
        rig.start_driver();
        let refused = rig.stage(&other).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("in use by something that the driver does not see"), "{refused}");
        assert_eq!(rig.sessions().await, 1);
        drop(held);

        rig.publish(&mut other).await.unwrap();
        let held = alone(&rig.device(&other.context["lun"]));
        let refused = rig.unpublish(&other).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert_eq!(rig.sessions().await, 1);
        drop(held);
        rig.unpublish(&other).await.unwrap();
        rig.sessions_are(0).await;
        for used in [used, other] {
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }
}
