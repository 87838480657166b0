//! The plan for a claim that grows, of which a snapshot is taken, from which another claim is restored.

use std::time::Duration;

use crate::faults::account::{ClaimExpected, Expected};
use crate::faults::plan::Random;

/// What all claims ask for at first.
pub const SIZE: i64 = 1 << 30;
/// What claims that grow ask for, and what they ask for again.
pub const LARGER: i64 = 2 * SIZE;
pub const LARGEST: i64 = 3 * SIZE;
/// At least as much as any claim has grown to.
pub const RESTORED: i64 = 4 * SIZE;

/// Three objects and their order. They have the same name, but for the restored claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// So long after it was asked to grow, the claim is asked to grow again.
    pub grows_again: Option<Duration>,
    /// The snapshot does not wait until the claim has grown.
    pub taken_while_growing: bool,
    pub end: End,
}

/// What becomes of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// They stay.
    AllStay,
    /// The claim is deleted while the snapshot is taken; the others stay.
    SourceGoes,
    /// The snapshot is deleted so long after it was asked for, taken or not. Nothing is restored.
    SnapshotGoesAfter(Duration),
    /// The same after the next fault has struck and before that is mended.
    SnapshotGoesDuringFault,
    /// The snapshot is deleted once the other claim is bound.
    SnapshotGoesWhenRestored,
    /// Snapshot and restored claim are deleted so long after the latter was asked for, bound or not.
    RestoreIsGivenUp(Duration),
    /// All are deleted at once, once they are there.
    AllGo,
}

impl Line {
    pub fn random(random: &mut Random) -> Self {
        let end = match random.below(12) {
            0..2 => End::AllStay,
            2..4 => End::SourceGoes,
            4..6 => End::SnapshotGoesAfter(random.milliseconds(0..600)),
            6..8 => End::SnapshotGoesDuringFault,
            8 => End::SnapshotGoesWhenRestored,
            9 => End::RestoreIsGivenUp(random.milliseconds(0..800)),
            _ => End::AllGo,
        };
        let again = random.milliseconds(0..400);
        Self {
            grows_again: (random.below(3) == 0).then_some(again),
            taken_while_growing: random.below(3) == 0,
            end,
        }
    }

    /// What of it should be there in the end.
    pub fn expect(&self, name: &str, expected: &mut Expected) {
        if !matches!(self.end, End::SourceGoes | End::AllGo) {
            let claim = ClaimExpected {
                size: match self.grows_again {
                    None => LARGER,
                    Some(_) => LARGEST,
                },
                ..ClaimExpected::default()
            };
            expected.claims.insert(name.to_owned(), claim);
        }
        if matches!(self.end, End::AllStay | End::SourceGoes) {
            expected.snapshots.insert(name.to_owned());
        }
        if matches!(
            self.end,
            End::AllStay | End::SourceGoes | End::SnapshotGoesWhenRestored
        ) {
            let claim = ClaimExpected {
                size: RESTORED,
                restored: true,
                node: None,
            };
            expected.claims.insert(restored(name), claim);
        }
    }
}

/// The name of the claim that is restored.
pub fn restored(name: &str) -> String {
    format!("{name}-restored")
}
