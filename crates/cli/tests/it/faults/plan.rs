//! What is going to happen, decided before it does: the same seed makes the same plan.

use std::ops::Range;
use std::time::Duration;

use crate::faults::line::Line;

/// Nodes that volumes are attached to.
pub const NODES: usize = 2;

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64: three lines, no dependency, good enough to choose moments.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the numbers from 0 to `count`, without `count`.
    pub fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % count).unwrap_or_default()
    }

    pub fn milliseconds(&mut self, range: Range<u64>) -> Duration {
        let width = (range.end - range.start).max(1);
        Duration::from_millis(range.start + self.next() % width)
    }
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is made and stays.
    Stays,
    /// It is deleted so long after it was made, bound or not.
    GoesAfter(Duration),
    /// It is deleted once it is bound.
    GoesWhenBound,
    /// It is deleted after the next fault has struck and before that is mended.
    GoesDuringFault,
    /// Its volume is attached and stays so.
    StaysAttached { node: usize },
    /// Its volume is attached, detached as soon as that is done, and deleted.
    Visits { node: usize },
    /// The same, but nobody waits for the attachment: it is deleted so long after it was made.
    PassesBy { node: usize, stay: Duration },
    /// Its volume is attached to one node, then moved to the next, and stays there.
    Moves { from: usize },
    /// It is deleted while its volume is attached; the attachment goes later.
    GoesWhileAttached { node: usize },
}

impl Life {
    /// Whether the claim is there in the end.
    pub fn stays(self) -> bool {
        matches!(
            self,
            Self::Stays | Self::StaysAttached { .. } | Self::Moves { .. }
        )
    }

    /// The node that the claim's volume is attached to in the end.
    pub fn stays_at(self) -> Option<usize> {
        match self {
            Self::StaysAttached { node } => Some(node),
            Self::Moves { from } => Some(next_node(from)),
            _ => None,
        }
    }

    fn random(random: &mut Random) -> Self {
        let node = random.below(NODES);
        match random.below(20) {
            0..4 => Self::Stays,
            // Most of these before there is a volume at all.
            4..8 => Self::GoesAfter(random.milliseconds(0..400)),
            8 => Self::GoesAfter(Duration::ZERO),
            9..12 => Self::GoesDuringFault,
            12..14 => Self::GoesWhenBound,
            14 => Self::StaysAttached { node },
            15 => Self::Moves { from: node },
            16 => Self::GoesWhileAttached { node },
            17..19 => Self::Visits { node },
            _ => Self::PassesBy {
                node,
                stay: random.milliseconds(0..300),
            },
        }
    }

    /// The same for a cluster where nobody attaches.
    fn without_attachment(self) -> Self {
        match self {
            Self::StaysAttached { .. } | Self::Moves { .. } => Self::Stays,
            Self::Visits { .. } | Self::PassesBy { .. } | Self::GoesWhileAttached { .. } => {
                Self::GoesWhenBound
            }
            other => other,
        }
    }
}

/// The node that a volume moves to.
pub fn next_node(node: usize) -> usize {
    (node + 1) % NODES
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So long after the round began.
    After(Duration),
    /// As soon as this RPC is called, or after so long if it is not; the driver is slow, so the call is under way.
    InCall(&'static str, Duration),
}

/// How long a fault waits for the call that it is to interrupt. Snapshots have more before them than volumes.
pub const LONGEST_WAIT: Duration = Duration::from_millis(1500);
const LONGEST_WAIT_FOR_SNAPSHOTS: Duration = Duration::from_secs(4);

/// A few claims and one fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub lives: Vec<(String, Life)>,
    pub lines: Vec<(String, Line)>,
    pub moment: Moment,
    /// How long the fault lasts.
    pub lasts: Duration,
}

/// Which claims and faults there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub claims: usize,
    /// Claims that grow, with a snapshot and what is restored from it.
    pub lines: usize,
    pub faults: usize,
    pub attach: bool,
}

/// All rounds, one per fault.
pub fn rounds(size: Size, random: &mut Random) -> Vec<Round> {
    let faults = size.faults.max(1);
    let (mut single, mut lined) = (0..size.claims, 0..size.lines);
    (0..faults)
        .map(|number| {
            let rounds_left = faults - number;
            let names = share(&mut single, rounds_left);
            let each = names.map(|claim| {
                let life = Life::random(random);
                let life = if size.attach {
                    life
                } else {
                    life.without_attachment()
                };
                (format!("claim-{claim}"), life)
            });
            let lives = each.collect();
            let names = share(&mut lined, rounds_left);
            let each = names.map(|line| (format!("line-{line}"), Line::random(random)));
            Round {
                lives,
                lines: each.collect(),
                moment: moment(number, size.lines > 0, random),
                lasts: random.milliseconds(0..400),
            }
        })
        .collect()
}

/// What a round takes of all numbers; what does not divide evenly goes into the last rounds.
fn share(numbers: &mut Range<usize>, rounds_left: usize) -> Range<usize> {
    let start = numbers.start;
    numbers.start += numbers.len() / rounds_left;
    start..numbers.start
}

/// The worst moments in turn, and any moment in between.
fn moment(round: usize, snapshots: bool, random: &mut Random) -> Moment {
    const OTHERS: [&str; 3] = [
        "DeleteVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
    ];
    const OTHERS_WITH_SNAPSHOTS: [&str; 4] = [
        "CreateVolume",
        "ControllerExpandVolume",
        "DeleteSnapshot",
        "DeleteVolume",
    ];
    let (first, others, wait) = if snapshots {
        let wait = LONGEST_WAIT_FOR_SNAPSHOTS;
        ("CreateSnapshot", &OTHERS_WITH_SNAPSHOTS[..], wait)
    } else {
        ("CreateVolume", &OTHERS[..], LONGEST_WAIT)
    };
    match round % 4 {
        0 => Moment::InCall(first, wait),
        2 => Moment::InCall(others[random.below(others.len())], wait),
        1 => Moment::After(random.milliseconds(0..1000)),
        // Time to get something done.
        _ => Moment::After(random.milliseconds(500..3000)),
    }
}

#[test]
fn the_same_seed_makes_the_same_plan() {
    let size = Size {
        claims: 103,
        lines: 53,
        faults: 10,
        attach: true,
    };
    let plan = |seed| rounds(size, &mut Random::new(seed));
    assert_eq!(plan(7), plan(7));
    assert_ne!(plan(7), plan(8));
}

#[test]
fn every_claim_has_one_life_and_every_kind_of_life_occurs() {
    let size = Size {
        claims: 503,
        lines: 0,
        faults: 50,
        attach: true,
    };
    let rounds = rounds(size, &mut Random::new(1));
    assert_eq!(rounds.len(), 50);
    let lives: Vec<_> = rounds.iter().flat_map(|round| &round.lives).collect();
    let names: std::collections::BTreeSet<_> = lives.iter().map(|(name, _)| name).collect();
    assert_eq!((lives.len(), names.len()), (503, 503));
    let kinds: std::collections::HashSet<_> = lives
        .iter()
        .map(|(_, life)| std::mem::discriminant(life))
        .collect();
    assert_eq!(kinds.len(), 9);
}

#[test]
fn every_line_occurs_once_and_every_end_of_a_line_does() {
    let size = Size {
        claims: 0,
        lines: 203,
        faults: 50,
        attach: false,
    };
    let rounds = rounds(size, &mut Random::new(1));
    let lines: Vec<_> = rounds.iter().flat_map(|round| &round.lines).collect();
    let names: std::collections::BTreeSet<_> = lines.iter().map(|(name, _)| name).collect();
    assert_eq!((lines.len(), names.len()), (203, 203));
    let ends: std::collections::HashSet<_> = lines
        .iter()
        .map(|(_, line)| std::mem::discriminant(&line.end))
        .collect();
    assert_eq!(ends.len(), 7);
}
