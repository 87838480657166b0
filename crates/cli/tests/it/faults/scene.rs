//! A driver, its sidecars and their part of a cluster, and what can happen to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use devcluster::testing::ControlPlane;
use serde_json::json;
use stowage_api::CrdGroup;
use stowage_memory_driver::{DriverProcess, Mishap, Moment as Side, Trouble};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::faults::account::{Expected, Storage, VolumeKept, Wrong, wrong};
use crate::faults::cluster::{Cluster, PATIENCE};
use crate::faults::logs::lines_about;
use crate::faults::plan::{Moment, NODES, Random};
use crate::faults::replica::{Replica, Role};

/// So many log lines are shown for each thing that is wrong.
const LINES: usize = 8;

/// Short enough that a test need not wait for long.
const ELECTION: [&str; 4] = [
    "--leader-election",
    "--leader-election-lease-duration=3s",
    "--leader-election-renew-deadline=2s",
    "--leader-election-retry-period=500ms",
];

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All replicas of a role.
    Killed(Role),
    LeaderKilled(Role),
    DriverKilled,
    ApiServerStopped,
}

/// What a scene consists of.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub replicas: usize,
    /// There are snapshots, and a controller for them. It works for the whole cluster: one scene at a time.
    pub snapshots: bool,
    pub seed: u64,
}

pub struct Scene<'a> {
    pub plane: &'a ControlPlane,
    pub cluster: Cluster,
    pub replicas: Vec<Replica>,
    pub random: Random,
    seed: u64,
    driver: DriverProcess,
    /// Of the driver's state and socket.
    _state: TempDir,
    /// Of the logs; it stays when something is wrong.
    logs: PathBuf,
}

impl<'a> Scene<'a> {
    /// Prepares everything and starts the driver; no replica runs yet.
    pub async fn set(plane: &'a ControlPlane, setting: Setting) -> Self {
        let Setting { name, seed, .. } = setting;
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("faults")
            .join(name);
        _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&logs).unwrap();
        let mut cluster = Cluster::prepare(plane.kubeconfig(), name).await;
        if setting.snapshots {
            install_snapshots(plane);
            cluster.prepare_snapshots().await;
        }
        for node in 0..NODES {
            let node = cluster.node(node);
            plane.add_node(&node, &cluster.driver, &[]).unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let own_name = format!("--name={}", cluster.driver);
        let without = "--without=VOLUME_ACCESSIBILITY_CONSTRAINTS";
        let log = format!("--log={}", logs.join("driver.log").display());
        // There is no kubelet that would do a node's part.
        let grows = "--expands-without-node";
        let arguments = [own_name.as_str(), without, grows, &log];
        let driver = DriverProcess::start(state.path(), &arguments).unwrap();
        let mut scene = Self {
            plane,
            replicas: Vec::new(),
            cluster,
            random: Random::new(seed),
            seed,
            driver,
            _state: state,
            logs,
        };
        for number in 0..setting.replicas {
            scene.add_replica(Role::Sidecar, number, setting);
            if setting.snapshots {
                scene.add_replica(Role::SnapshotController, number, setting);
            }
        }
        scene.slow_the_driver();
        scene
    }

    fn add_replica(&mut self, role: Role, number: usize, setting: Setting) {
        let mut arguments = vec![
            format!("--kubeconfig={}", self.plane.kubeconfig().display()),
            format!("--leader-election-namespace={}", setting.name),
            "--retry-interval-start=100ms".to_owned(),
            "--retry-interval-max=2s".to_owned(),
        ];
        arguments.extend(match role {
            Role::Sidecar => vec![
                format!("--csi-address={}", self.driver.endpoint()),
                "--health-port=0".to_owned(),
            ],
            Role::SnapshotController => vec!["--http-endpoint=".to_owned()],
        });
        if setting.replicas > 1 {
            arguments.extend(ELECTION.map(str::to_owned));
        }
        let log = self.logs.join(format!("{}-{number}.log", role.name()));
        self.replicas.push(Replica::new(role, arguments, log));
    }

    pub fn start_replicas(&mut self) {
        for replica in &mut self.replicas {
            replica.start(&[]);
        }
    }

    /// The one sidecar of a scene that has nothing else.
    pub fn sidecar(&mut self) -> &mut Replica {
        &mut self.replicas[0]
    }

    /// Calls take a while, most of it after they have had their effect: that is where a kill hurts.
    fn slow_the_driver(&mut self) {
        for rpc in [
            "CreateVolume",
            "DeleteVolume",
            "ControllerPublishVolume",
            "ControllerUnpublishVolume",
            "ControllerExpandVolume",
            "CreateSnapshot",
            "DeleteSnapshot",
        ] {
            let before = self.random.milliseconds(0..30);
            let after = self.random.milliseconds(50..200);
            for (side, time) in [(Side::Before, before), (Side::After, after)] {
                let mishap = Mishap::new(side, Trouble::Delay(time));
                self.driver.upset(rpc, mishap).unwrap();
            }
        }
    }

    /// How often an RPC was called since the driver started.
    pub fn calls(&self, rpc: &str) -> u64 {
        self.driver.calls(rpc).unwrap()
    }

    /// Waits for the moment of a fault; `begun` is what [`calls`](Self::calls) said when the round began.
    pub async fn wait_for(&mut self, moment: Moment, begun: u64) {
        match moment {
            Moment::After(time) => sleep(time).await,
            Moment::InCall(rpc, longest) => {
                let give_up = Instant::now() + longest;
                while self.calls(rpc) == begun && Instant::now() < give_up {
                    sleep(Duration::from_millis(3)).await;
                }
                sleep(self.random.milliseconds(0..120)).await;
            }
        }
    }

    /// Lets something go wrong.
    pub async fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Killed(role) => {
                let all = self.replicas.iter_mut();
                all.filter(|replica| replica.role() == role)
                    .for_each(Replica::kill);
            }
            Fault::LeaderKilled(role) => {
                let leader = self.leader(role).await;
                self.replicas[leader].kill();
            }
            Fault::DriverKilled => self.driver.kill(),
            Fault::ApiServerStopped => self.plane.stop().unwrap(),
        }
    }

    /// Ends a fault.
    pub fn mend(&mut self, fault: Fault) {
        match fault {
            Fault::Killed(role) | Fault::LeaderKilled(role) => {
                let all = self.replicas.iter_mut();
                all.filter(|replica| replica.role() == role && !replica.runs())
                    .for_each(|replica| replica.start(&[]));
            }
            Fault::DriverKilled => {
                self.driver.start_again().unwrap();
                self.slow_the_driver();
            }
            Fault::ApiServerStopped => {
                self.plane.start_again().unwrap();
                // Kubernetes' own controllers ask again after pauses that grow with every outage: fresh ones bind at once.
                self.plane.stop_controllers().unwrap();
                self.plane.start_controllers().unwrap();
            }
        }
    }

    /// The replica that leads, as soon as one does.
    async fn leader(&mut self, role: Role) -> usize {
        let give_up = Instant::now() + PATIENCE;
        loop {
            self.revive();
            if let Some(holder) = self.cluster.leader(role).await {
                let leads = |replica: &Replica| {
                    replica.role() == role && replica.runs() && replica.has_led_as(&holder)
                };
                if let Some(found) = self.replicas.iter().position(leads) {
                    return found;
                }
            }
            assert!(Instant::now() < give_up, "no replica ever leads");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts replicas again that ended by themselves, as a kubelet does. One that has lost its lease may end, and on a
    /// busy machine that happens; without election nobody may.
    pub fn revive(&mut self) {
        for number in 0..self.replicas.len() {
            let Some(status) = self.replicas[number].has_ended() else {
                continue;
            };
            let role = self.replicas[number].role();
            let all = self.replicas.iter();
            let elected = all.filter(|replica| replica.role() == role).count() > 1;
            let text = format!("a {} ended by itself with {status}", role.name());
            if !elected {
                self.fail(&[Wrong {
                    what: text,
                    traces: vec!["ERROR".to_owned()],
                }]);
            }
            println!("{}: {text}", self.cluster.name);
            self.replicas[number].start(&[]);
        }
    }

    /// What the driver has, whether it runs or not.
    pub fn storage(&self) -> Storage {
        let driver = self.driver.look().unwrap();
        let volumes = driver.volumes().into_iter().map(|volume| {
            let kept = VolumeKept {
                name: volume.name,
                size: volume.size,
                restored: volume.source.is_some(),
            };
            (volume.id, kept)
        });
        let snapshots = driver.snapshots().into_iter();
        let deleted = driver.deleted_snapshots().into_iter();
        let publications = driver.publications().into_iter();
        Storage {
            volumes: volumes.collect(),
            snapshots: snapshots
                .map(|kept| (kept.snapshot.snapshot_id, kept.name))
                .collect(),
            deleted_snapshots: deleted.map(|kept| kept.name).collect(),
            publications: publications
                .map(|publication| (publication.volume_id, publication.node_id))
                .collect(),
        }
    }

    pub fn endpoint(&self) -> stowage_csi::endpoint::Endpoint {
        self.driver.endpoint()
    }

    /// Waits until all is as it should be; fails with what is not.
    pub async fn settle(&mut self, expected: &Expected) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            self.revive();
            // A change between the two readings is taken for an error, once.
            let wrong = match self.cluster.look().await {
                Ok(seen) => wrong(expected, &seen, &self.storage()),
                Err(error) => vec![Wrong {
                    what: format!("the API server does not answer: {error}"),
                    traces: Vec::new(),
                }],
            };
            if wrong.is_empty() {
                return;
            }
            if Instant::now() > give_up {
                self.fail(&wrong);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Ends the test with everything that helps to find out why.
    pub fn fail(&self, wrong: &[Wrong]) -> ! {
        let mut text = String::new();
        for one in wrong {
            text.push_str(&format!("\n- {}", one.what));
            for line in lines_about(&self.logs, &one.traces, LINES) {
                text.push_str(&format!("\n    {line}"));
            }
        }
        panic!(
            "{}: {} things are not as they should be; STOWAGE_SOAK_SEED={} repeats it, logs are in {}{text}",
            self.cluster.name,
            wrong.len(),
            self.seed,
            self.logs.display()
        );
    }

    /// All went well: nothing stays.
    pub fn clear(self) {
        _ = fs::remove_dir_all(&self.logs);
    }
}

/// Gives a cluster the kinds of snapshots. Called twice: it has them.
fn install_snapshots(plane: &ControlPlane) {
    let definitions = serde_json::to_value(CrdGroup::Snapshots.crds()).unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions}).to_string();
    plane
        .kubectl_with_input(&["apply", "-f", "-"], &list)
        .unwrap();
    plane.wait_for_definitions().unwrap();
}
