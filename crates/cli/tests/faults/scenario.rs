//! Claims that come and go while something goes wrong again and again.

use std::time::Duration;

use devcluster::testing::ControlPlane;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    account::{Expected, Wrong, lost_volumes},
    cluster::{delete, insist, names},
    lives::Witness,
    plan::{Life, Moment, Round, Size, rounds},
    scene::{Fault, Scene},
};

/// The same faults, so many times.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// All strike at once; the last one is mended first.
    pub faults: &'static [Fault],
    pub replicas: usize,
    pub size: Size,
    /// How long each fault lasts at least.
    pub lasts: Duration,
    pub seed: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Volumes that the driver had and the cluster did not know of when a fault struck: only the journal did.
    pub half_made: usize,
}

impl Scenario {
    /// Plays it, and fails unless all is well afterwards and nothing is left in the end.
    pub async fn play(self, plane: &ControlPlane) -> Outcome {
        println!("{}: seed {}", self.name, self.seed);
        let mut scene = Scene::set(plane, self.name, self.replicas, self.seed).await;
        let rounds = rounds(self.size, &mut scene.random);
        scene.start_sidecars();
        let mut cast = Cast::new(&scene);
        let mut outcome = Outcome { half_made: 0 };
        for (number, round) in rounds.iter().enumerate() {
            outcome.half_made += self.play_round(&mut scene, &mut cast, round).await;
            println!("{}: {} of {} faults", self.name, number + 1, rounds.len());
        }
        let expected = cast.finish(&mut scene).await;
        scene.settle(&expected).await;
        tear_down(&mut scene).await;
        leave(&mut scene).await;
        println!(
            "{}: over: {} claims, {} faults, volumes half made {} times: nothing lost, nothing left",
            self.name, self.size.claims, self.size.faults, outcome.half_made,
        );
        scene.clear();
        outcome
    }

    /// Returns how many volumes the fault found half made.
    async fn play_round(&self, scene: &mut Scene<'_>, cast: &mut Cast, round: &Round) -> usize {
        scene.revive();
        let begun = match round.moment {
            Moment::InCall(rpc) => scene.calls(rpc),
            Moment::After(_) => 0,
        };
        cast.enter(&round.lives);
        scene.wait_for(round.moment, begun).await;
        for fault in self.faults {
            scene.strike(*fault).await;
        }
        cast.tell_of_fault();
        let half_made = if self.faults.contains(&Fault::ApiServerStopped) {
            // Nobody can be asked.
            0
        } else {
            half_made(scene).await
        };
        for fault in self.faults.iter().rev() {
            sleep(self.lasts + round.lasts).await;
            scene.mend(*fault);
        }
        half_made
    }
}

/// The claims, each with a life of its own.
pub struct Cast {
    witness: Witness,
    faults: watch::Sender<usize>,
    lives: JoinSet<()>,
    expected: Expected,
}

impl Cast {
    pub fn new(scene: &Scene) -> Self {
        let (faults, seen) = watch::channel(0);
        Self {
            witness: Witness {
                cluster: scene.cluster.clone(),
                snapshots: scene.cluster.watch(),
                faults: seen,
            },
            faults,
            lives: JoinSet::new(),
            expected: Expected::new(),
        }
    }

    /// Begins new lives.
    pub fn enter(&mut self, lives: &[(String, Life)]) {
        for (claim, life) in lives {
            if life.stays() {
                let node = life.stays_at().map(|node| self.witness.cluster.node(node));
                self.expected.insert(claim.clone(), node);
            }
            let life = self.witness.clone().live(claim.clone(), *life);
            self.lives.spawn(life);
        }
    }

    pub fn tell_of_fault(&self) {
        self.faults.send_modify(|count| *count += 1);
    }

    /// Waits until all lives are lived; returns what should be there then.
    pub async fn finish(mut self, scene: &mut Scene<'_>) -> Expected {
        let mut wrong = Vec::new();
        loop {
            scene.revive();
            match timeout(Duration::from_secs(1), self.lives.join_next()).await {
                Err(_) | Ok(Some(Ok(()))) => {}
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    let reason = error.try_into_panic().ok();
                    let text = reason.and_then(|reason| reason.downcast::<String>().ok());
                    let what = text.map_or_else(|| "a life ended early".to_owned(), |text| *text);
                    let words = what.split_whitespace();
                    let claim = words.filter(|word| word.contains('-')).map(str::to_owned);
                    wrong.push(Wrong {
                        traces: claim.collect(),
                        what,
                    });
                }
            }
        }
        if !wrong.is_empty() {
            scene.fail(&wrong);
        }
        self.expected
    }
}

/// How many volumes the driver has that no object stands for.
pub async fn half_made(scene: &Scene<'_>) -> usize {
    let seen = insist("look", || scene.cluster.look()).await;
    lost_volumes(&seen, &scene.storage()).len()
}

/// Deletes everything and waits until cluster and driver are empty.
pub async fn tear_down(scene: &mut Scene<'_>) {
    let seen = scene.cluster.look().await.unwrap();
    for name in names(&seen.attachments) {
        delete(&scene.cluster.attachments(), &name).await;
    }
    for name in names(&seen.claims) {
        delete(&scene.cluster.claims(), &name).await;
    }
    scene.settle(&Expected::new()).await;
}

/// Stops the sidecars as a kubelet does: each ends well, and nothing is under way any more.
async fn leave(scene: &mut Scene<'_>) {
    for number in 0..scene.sidecars.len() {
        scene.revive();
        scene.sidecars[number].terminate();
        let status = scene.sidecars[number].ended().await;
        if !status.success() {
            scene.fail(&[Wrong {
                what: format!("after SIGTERM the sidecar ended with {status}"),
                traces: vec!["ERROR".to_owned()],
            }]);
        }
    }
    no_intents(scene).await;
}

/// Fails if the journal has entries.
pub async fn no_intents(scene: &Scene<'_>) {
    let left = scene.cluster.intents().await;
    if !left.is_empty() {
        scene.fail(&[Wrong {
            what: format!("the journal still has claims {left:?}"),
            traces: left,
        }]);
    }
}
