//! The driver on a node is killed while it works, at every step of a volume's way to a pod and back. Whoever comes after it is
//! called again, as by a kubelet: it finds everything as it is, data is whole, and nothing is left in the end.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::isolated;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use stowage_csi::proto::csi::{
    NodePublishVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use tokio::time::sleep;
use tonic::Status;

use crate::driver::calls::{Used, capability};
use crate::driver::life::write;
use crate::driver::rig::Rig;

/// How long a call may be repeated, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Stage,
    Publish,
    Unpublish,
    Unstage,
}

/// What the driver has come to: it is killed as soon as this is seen, if it has not answered by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// It has a session with the array.
    LoggedIn,
    /// The disk has a filesystem.
    Formatted,
    /// The volume is mounted.
    Mounted,
    /// A pod would see it.
    Bound,
    /// No pod would see it any more.
    Unbound,
    /// It is not mounted any more.
    Unmounted,
    /// The session is over.
    LoggedOut,
}

const OF_A_DISK: [(Call, Moment); 7] = [
    (Call::Stage, Moment::LoggedIn),
    (Call::Stage, Moment::Formatted),
    (Call::Stage, Moment::Mounted),
    (Call::Publish, Moment::Bound),
    (Call::Unpublish, Moment::Unbound),
    (Call::Unstage, Moment::Unmounted),
    (Call::Unstage, Moment::LoggedOut),
];

const OF_A_SHARE: [(Call, Moment); 4] = [
    (Call::Stage, Moment::Mounted),
    (Call::Publish, Moment::Bound),
    (Call::Unpublish, Moment::Unbound),
    (Call::Unstage, Moment::Unmounted),
];

fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut points = table.lines().filter_map(|line| line.split(' ').nth(4));
    points.any(|point| Path::new(point) == path)
}

/// Whether the first disk of the node begins as an xfs does.
fn is_formatted(by_path: &Path) -> bool {
    let links = fs::read_dir(by_path).into_iter().flatten().flatten();
    links.into_iter().any(|link| {
        let mut begin = [0; 4];
        let disk = fs::File::open(link.path());
        let read = disk.and_then(|mut disk| std::io::Read::read_exact(&mut disk, &mut begin));
        read.is_ok() && begin == *b"XFSB"
    })
}

impl Rig {
    async fn has_come(&self, moment: Moment, used: &Used) -> bool {
        let (staging, target) = (self.staging(used), self.target(used));
        let is_staged = || is_mounted(Path::new(&staging));
        match moment {
            Moment::LoggedIn => self.sessions().await > 0,
            Moment::Formatted => is_formatted(&self.path("by-path")),
            Moment::Mounted => is_staged(),
            Moment::Bound => is_mounted(&target),
            Moment::Unbound => !is_mounted(&target),
            Moment::Unmounted => !is_staged(),
            Moment::LoggedOut => !is_staged() && self.sessions().await == 0,
        }
    }

    /// A call of the driver that runs now.
    fn call(&self, call: Call, used: &Used) -> BoxFuture<'static, Result<(), Status>> {
        let mut node = self.node.clone();
        let (volume_id, staging_target_path) = (used.id.clone(), self.staging(used));
        let target_path = self.target(used).display().to_string();
        match call {
            Call::Stage => {
                let request = self.stage_request(used);
                async move { node.node_stage_volume(request).await.map(drop) }.boxed()
            }
            Call::Publish => {
                let request = NodePublishVolumeRequest {
                    volume_id,
                    publish_context: used.context.clone(),
                    staging_target_path,
                    target_path,
                    volume_capability: Some(capability(used.raw)),
                    ..NodePublishVolumeRequest::default()
                };
                async move { node.node_publish_volume(request).await.map(drop) }.boxed()
            }
            Call::Unpublish => {
                let request = NodeUnpublishVolumeRequest {
                    volume_id,
                    target_path,
                };
                async move { node.node_unpublish_volume(request).await.map(drop) }.boxed()
            }
            Call::Unstage => {
                let request = NodeUnstageVolumeRequest {
                    volume_id,
                    staging_target_path,
                };
                async move { node.node_unstage_volume(request).await.map(drop) }.boxed()
            }
        }
    }

    /// Calls, kills the driver at that moment, or when it has answered, and starts another. What the one before has started
    /// (`mkfs`) may still be at work: a call that fails is repeated.
    async fn kill_at(&mut self, moment: Moment, call: Call, used: &Used) {
        let comes = async {
            while !self.has_come(moment, used).await {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = comes => {}
            () = self.repeat(call, used) => {}
        }
        self.kill_node();
        self.start_node();
    }

    /// Repeats a call until it is done, as a kubelet does.
    async fn repeat(&self, call: Call, used: &Used) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.call(call, used).await {
            assert!(Instant::now() < deadline, "{call:?}: {error}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// To the pod and back, with a driver that is killed at each of these moments.
    async fn go_and_come_back(&mut self, used: &mut Used, ways: &[(Call, Moment)], text: &str) {
        self.attach(used).await.unwrap();
        for (number, (call, moment)) in ways.iter().enumerate() {
            self.kill_at(*moment, *call, used).await;
            let is_last = ways.get(number + 1).is_none_or(|(next, _)| next != call);
            if is_last {
                self.repeat(*call, used).await;
            }
            if is_last && *call == Call::Publish {
                let file = self.target(used).join("file");
                write(&file, text);
            }
        }
    }
}

isolated! {
    async fn a_node_that_is_killed_at_any_step_is_followed_by_one_that_goes_on(directory: &Path) {
        let class = json!({"volumeType": "Block"});
        let mut rig = Rig::with(directory, class, |setting| setting.node_apart = true).await;
        let mut disk = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.go_and_come_back(&mut disk, &OF_A_DISK, "on the disk").await;
        assert_eq!(rig.sessions().await, 0);
        let place = rig.publish(&mut disk).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "on the disk");
        rig.unpublish(&disk).await.unwrap();
        rig.delete(disk).await;
        assert_eq!((rig.on_array().await, rig.sessions().await), ((0, 0, 0), 0));
        assert!(fs::read_dir(rig.path("nodes")).unwrap().next().is_none(), "settings stay");
        rig.kill_node();
        rig.stop_driver().await;
    }

    async fn a_share_survives_the_death_of_its_node_at_any_step(directory: &Path) {
        let mut rig = Rig::with(directory, json!({}), |setting| setting.node_apart = true).await;
        let mut share = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.go_and_come_back(&mut share, &OF_A_SHARE, "on the share").await;
        let place = rig.publish(&mut share).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "on the share");
        rig.unpublish(&share).await.unwrap();
        rig.delete(share).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.kill_node();
        rig.stop_driver().await;
    }
}
