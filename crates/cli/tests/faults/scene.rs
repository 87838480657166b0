//! A driver, its sidecars and their part of a cluster, and what can happen to them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use devcluster::testing::ControlPlane;
use stowage_csi::testing::{DriverProcess, Mishap, Moment as Side, Trouble};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    account::{Expected, Storage, Wrong, wrong},
    cluster::{Cluster, PATIENCE},
    logs::lines_about,
    plan::{Moment, NODES, Random},
    sidecar::Sidecar,
};

/// A fault waits so long for the call that it is to interrupt.
const LONGEST_WAIT: Duration = Duration::from_millis(1500);
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
    SidecarKilled,
    LeaderKilled,
    DriverKilled,
    ApiServerStopped,
}

pub struct Scene<'a> {
    pub plane: &'a ControlPlane,
    pub cluster: Cluster,
    pub sidecars: Vec<Sidecar>,
    pub random: Random,
    seed: u64,
    driver: DriverProcess,
    /// Of the driver's state and socket.
    _state: TempDir,
    /// Of the logs; it stays when something is wrong.
    logs: PathBuf,
}

impl<'a> Scene<'a> {
    /// Prepares everything and starts the driver; no sidecar runs yet.
    pub async fn set(plane: &'a ControlPlane, name: &str, replicas: usize, seed: u64) -> Self {
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("faults")
            .join(name);
        _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&logs).unwrap();
        let cluster = Cluster::prepare(plane.kubeconfig(), name).await;
        for node in 0..NODES {
            let node = cluster.node(node);
            plane.add_node(&node, &cluster.driver, &[]).unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let own_name = format!("--name={}", cluster.driver);
        let without = "--without=VOLUME_ACCESSIBILITY_CONSTRAINTS";
        let log = format!("--log={}", logs.join("driver.log").display());
        let driver = DriverProcess::start(state.path(), &[&own_name, without, &log]).unwrap();
        let mut arguments = vec![
            format!("--csi-address={}", driver.endpoint()),
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            format!("--leader-election-namespace={name}"),
            "--health-port=0".to_owned(),
            "--retry-interval-start=100ms".to_owned(),
            "--retry-interval-max=2s".to_owned(),
        ];
        if replicas > 1 {
            arguments.extend(ELECTION.map(str::to_owned));
        }
        let sidecars = (0..replicas).map(|number| {
            let log = logs.join(format!("sidecar-{number}.log"));
            Sidecar::new(arguments.clone(), log)
        });
        let mut scene = Self {
            plane,
            sidecars: sidecars.collect(),
            cluster,
            random: Random::new(seed),
            seed,
            driver,
            _state: state,
            logs,
        };
        scene.slow_the_driver();
        scene
    }

    pub fn start_sidecars(&mut self) {
        for sidecar in &mut self.sidecars {
            sidecar.start(&[]);
        }
    }

    /// Calls take a while, most of it after they have had their effect: that is where a kill hurts.
    fn slow_the_driver(&mut self) {
        for rpc in [
            "CreateVolume",
            "DeleteVolume",
            "ControllerPublishVolume",
            "ControllerUnpublishVolume",
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
            Moment::InCall(rpc) => {
                let give_up = Instant::now() + LONGEST_WAIT;
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
            Fault::SidecarKilled => self.sidecars[0].kill(),
            Fault::LeaderKilled => {
                let leader = self.leader().await;
                self.sidecars[leader].kill();
            }
            Fault::DriverKilled => self.driver.kill(),
            Fault::ApiServerStopped => self.plane.stop().unwrap(),
        }
    }

    /// Ends a fault.
    pub fn mend(&mut self, fault: Fault) {
        match fault {
            Fault::SidecarKilled | Fault::LeaderKilled => {
                let gone = self.sidecars.iter_mut().filter(|sidecar| !sidecar.runs());
                gone.for_each(|sidecar| sidecar.start(&[]));
            }
            Fault::DriverKilled => {
                self.driver.start_again().unwrap();
                self.slow_the_driver();
            }
            Fault::ApiServerStopped => self.plane.start_again().unwrap(),
        }
    }

    /// The replica that leads, as soon as one does.
    async fn leader(&mut self) -> usize {
        let give_up = Instant::now() + PATIENCE;
        loop {
            self.revive();
            if let Some(holder) = self.cluster.leader().await {
                let leads = |sidecar: &Sidecar| sidecar.runs() && sidecar.has_led_as(&holder);
                if let Some(found) = self.sidecars.iter().position(leads) {
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
        let elected = self.sidecars.len() > 1;
        for number in 0..self.sidecars.len() {
            if let Some(status) = self.sidecars[number].has_ended() {
                let text = format!("a sidecar ended by itself with {status}");
                if !elected {
                    self.fail(&[Wrong {
                        what: text,
                        traces: vec!["ERROR".to_owned()],
                    }]);
                }
                println!("{}: {text}", self.cluster.name);
                self.sidecars[number].start(&[]);
            }
        }
    }

    /// What the driver has, whether it runs or not.
    pub fn storage(&self) -> Storage {
        let driver = self.driver.look().unwrap();
        let volumes = driver.volumes().into_iter();
        let publications = driver.publications().into_iter();
        Storage {
            volumes: volumes.map(|volume| (volume.id, volume.name)).collect(),
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
