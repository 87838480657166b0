//! Claims that come and go while something goes wrong again and again.

use std::time::Duration;

use devcluster::testing::ControlPlane;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::faults::account::{ClaimExpected, Expected, Wrong, lost_snapshots, lost_volumes};
use crate::faults::cluster::{delete, insist, names_in};
use crate::faults::line::SIZE;
use crate::faults::lives::Witness;
use crate::faults::plan::{Moment, Round, Size, rounds};
use crate::faults::scene::{Fault, Scene, Setting};

/// The same faults, so many times.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub setting: Setting,
    /// Each round has the next of these, and then the first again. What stands together strikes at once; the last one
    /// is mended first.
    pub faults: &'static [&'static [Fault]],
    pub size: Size,
    /// How long the API server is away at least.
    pub outage: Duration,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Volumes that the driver had and the cluster did not know of when a fault struck: only the journal did.
    pub half_made: usize,
    /// Snapshots that the driver had and no content knew of: only a mark said that there might be one.
    pub half_taken: usize,
}

impl Scenario {
    /// The same with so many replicas of everything, of which one leads.
    pub fn with_replicas(mut self, count: usize) -> Self {
        self.setting.replicas = count;
        self
    }

    /// The same with snapshots and their controller.
    pub fn with_snapshots(mut self) -> Self {
        self.setting.snapshots = true;
        self
    }

    /// Plays it, and fails unless all is well afterwards and nothing is left in the end.
    pub async fn play(self, plane: &ControlPlane) -> Outcome {
        let name = self.setting.name;
        println!("{name}: seed {}", self.setting.seed);
        let mut scene = Scene::set(plane, self.setting).await;
        let rounds = rounds(self.size, &mut scene.random);
        scene.start_replicas();
        let mut cast = Cast::new(&scene);
        let mut outcome = Outcome::default();
        let faults = self.faults.iter().cycle();
        for (number, (round, faults)) in rounds.iter().zip(faults).enumerate() {
            let found = self.play_round(&mut scene, &mut cast, round, faults).await;
            outcome.half_made += found.half_made;
            outcome.half_taken += found.half_taken;
            println!("{name}: {} of {} faults", number + 1, rounds.len());
        }
        let expected = cast.finish(&mut scene).await;
        scene.settle(&expected).await;
        tear_down(&mut scene).await;
        leave(&mut scene).await;
        let Size {
            claims,
            lines,
            faults,
            ..
        } = self.size;
        println!(
            "{name}: over: {} claims, {faults} faults, volumes half made {} times, snapshots half taken {} times: \
             nothing lost, nothing left",
            claims + lines,
            outcome.half_made,
            outcome.half_taken,
        );
        scene.clear();
        outcome
    }

    /// Returns what the faults found half done.
    async fn play_round(
        &self,
        scene: &mut Scene<'_>,
        cast: &mut Cast,
        round: &Round,
        faults: &[Fault],
    ) -> Outcome {
        scene.revive();
        let begun = match round.moment {
            Moment::InCall(rpc, _) => scene.calls(rpc),
            Moment::After(_) => 0,
        };
        cast.enter(round);
        scene.wait_for(round.moment, begun).await;
        for fault in faults {
            scene.strike(*fault).await;
        }
        cast.tell_of_fault();
        let found = if faults.contains(&Fault::ApiServerStopped) {
            // Nobody can be asked.
            Outcome::default()
        } else {
            half_done(scene).await
        };
        for fault in faults.iter().rev() {
            if *fault == Fault::ApiServerStopped {
                sleep(self.outage).await;
            }
            sleep(round.lasts).await;
            scene.mend(*fault);
        }
        found
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
                pictures: scene.cluster.watch(),
                faults: seen,
            },
            faults,
            lives: JoinSet::new(),
            expected: Expected::default(),
        }
    }

    /// Begins new lives.
    pub fn enter(&mut self, round: &Round) {
        for (claim, life) in &round.lives {
            if life.stays() {
                let wanted = ClaimExpected {
                    node: life.stays_at().map(|node| self.witness.cluster.node(node)),
                    size: SIZE,
                    restored: false,
                };
                self.expected.claims.insert(claim.clone(), wanted);
            }
            let life = self.witness.clone().live(claim.clone(), *life);
            self.lives.spawn(life);
        }
        for (name, line) in &round.lines {
            line.expect(name, &mut self.expected);
            let life = self.witness.clone().live_line(name.clone(), *line);
            self.lives.spawn(life);
        }
    }

    pub fn tell_of_fault(&self) {
        self.faults.send_modify(|count| *count += 1);
    }

    /// Waits until all lives are lived; returns what should be there then.
    pub async fn finish(self, scene: &mut Scene<'_>) -> Expected {
        let Self {
            faults,
            mut lives,
            expected,
            ..
        } = self;
        // Who waits for another fault waits in vain.
        drop(faults);
        let mut wrong = Vec::new();
        loop {
            scene.revive();
            match timeout(Duration::from_secs(1), lives.join_next()).await {
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
        expected
    }
}

/// What the driver has that no object stands for.
pub async fn half_done(scene: &Scene<'_>) -> Outcome {
    let seen = insist("look", || scene.cluster.look()).await;
    let storage = scene.storage();
    Outcome {
        half_made: lost_volumes(&seen, &storage).len(),
        half_taken: lost_snapshots(&seen, &storage).len(),
    }
}

/// Deletes everything and waits until cluster and driver are empty.
pub async fn tear_down(scene: &mut Scene<'_>) {
    let seen = scene.cluster.look().await.unwrap();
    for name in names_in(&seen.attachments) {
        delete(&scene.cluster.attachments(), &name).await;
    }
    // Claims before their snapshots: nobody is to mind.
    for name in names_in(&seen.claims) {
        delete(&scene.cluster.claims(), &name).await;
    }
    for name in names_in(&seen.snapshots) {
        delete(&scene.cluster.snapshots(), &name).await;
    }
    scene.settle(&Expected::default()).await;
}

/// Stops the replicas as a kubelet does: each ends well, and nothing is under way any more.
async fn leave(scene: &mut Scene<'_>) {
    for number in 0..scene.replicas.len() {
        scene.revive();
        scene.replicas[number].terminate();
        let status = scene.replicas[number].ended().await;
        if !status.success() {
            let role = scene.replicas[number].role().name();
            scene.fail(&[Wrong {
                what: format!("after SIGTERM the {role} ended with {status}"),
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
