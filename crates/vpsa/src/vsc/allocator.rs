//! Which array a new volume goes to.

use stowage_api::vpsa::{CapacityMode, VpsaState};

/// The rule by which an array is chosen among those that can take a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum Allocator {
    /// The smallest sum of volumes (by the thousand), allocated and provisioned capacity
    #[default]
    Weighted,
    /// The most available capacity
    MostAvailableCapacity,
    /// The fewest volumes
    Even,
    /// The one that was added first, until it is full
    Linear,
}

/// An array that a volume may go to. Sizes are in GB.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The name of its object.
    pub name: String,
    /// How it is.
    pub state: VpsaState,
    /// How full it is, in its own judgement.
    pub mode: CapacityMode,
    /// How much it holds.
    pub total: f64,
    /// How much of it is free.
    pub available: f64,
    /// The sum of the sizes of its volumes.
    pub provisioned: f64,
    /// How many volumes it has.
    pub volumes: u32,
    /// When it was added: a larger number later.
    pub added: i64,
}

impl Candidate {
    /// Why it cannot take a volume of this size.
    fn refusal(&self, gigabytes: f64) -> Option<String> {
        let Self { state, mode, .. } = self;
        if *state != VpsaState::Ready {
            return Some(format!("its state is {state}"));
        }
        if *mode != CapacityMode::Normal {
            return Some(format!("its capacity mode is {mode}"));
        }
        let free = self.available;
        (free < gigabytes)
            .then(|| format!("it has {free:.0} GB available and {gigabytes:.0} GB are needed"))
    }

    /// The less, the better.
    fn weight(&self, allocator: Allocator) -> f64 {
        let share = |of: f64| {
            if self.total > 0.0 {
                of / self.total
            } else {
                1.0
            }
        };
        match allocator {
            Allocator::Weighted => {
                let allocated = share(self.total - self.available);
                f64::from(self.volumes) / 1000.0 + allocated + share(self.provisioned)
            }
            Allocator::MostAvailableCapacity => -self.available,
            Allocator::Even => self.volumes.into(),
            Allocator::Linear => 0.0,
        }
    }
}

/// Why no array takes a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoArray {
    /// There are none.
    #[error("VSCStorageClass `{0}` has no VPSA: add one")]
    NoMembers(String),
    /// None of them can.
    #[error("no VPSA of VSCStorageClass `{class}` can take the volume: {}", reasons.join("; "))]
    Refused {
        /// The class.
        class: String,
        /// Of each array.
        reasons: Vec<String>,
    },
}

/// Chooses. Those that are equally good are taken in the order in which they were added.
pub fn choose<'a>(
    allocator: Allocator,
    class: &str,
    candidates: &'a [Candidate],
    gigabytes: f64,
) -> Result<&'a Candidate, NoArray> {
    if candidates.is_empty() {
        return Err(NoArray::NoMembers(class.to_owned()));
    }
    let able = candidates
        .iter()
        .filter(|it| it.refusal(gigabytes).is_none());
    let best = able.min_by(|a, b| {
        let (first, second) = (a.weight(allocator), b.weight(allocator));
        let earlier = (a.added, &a.name).cmp(&(b.added, &b.name));
        first.total_cmp(&second).then(earlier)
    });
    best.ok_or_else(|| {
        let reason = |it: &Candidate| Some(format!("{}: {}", it.name, it.refusal(gigabytes)?));
        NoArray::Refused {
            class: class.to_owned(),
            reasons: candidates.iter().filter_map(reason).collect(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, available: f64, provisioned: f64, volumes: u32) -> Candidate {
        Candidate {
            name: name.to_owned(),
            state: VpsaState::Ready,
            mode: CapacityMode::Normal,
            total: 1000.0,
            available,
            provisioned,
            volumes,
            added: name.bytes().map(i64::from).sum(),
        }
    }

    #[test]
    fn each_rule_chooses_as_it_is_described() {
        // 0.05 + 0.1 + 0.9, 0.3 + 0.5 + 0.1, 0.01 + 0.8 + 0.2
        let all = [
            candidate("a", 900.0, 900.0, 50),
            candidate("b", 500.0, 100.0, 300),
            candidate("c", 200.0, 200.0, 10),
        ];
        for (allocator, chosen) in [
            (Allocator::Weighted, "b"),
            (Allocator::MostAvailableCapacity, "a"),
            (Allocator::Even, "c"),
            (Allocator::Linear, "a"),
        ] {
            let name = &choose(allocator, "class", &all, 10.0).unwrap().name;
            assert_eq!(name, chosen, "{allocator:?}");
        }
        let first_is_full = [candidate("a", 5.0, 0.0, 0), all[1].clone()];
        let chosen = choose(Allocator::Linear, "class", &first_is_full, 10.0);
        assert_eq!(chosen.unwrap().name, "b");
    }

    #[test]
    fn only_arrays_that_are_ready_normal_and_large_enough_are_chosen() {
        let mut all = [
            candidate("a", 900.0, 0.0, 0),
            candidate("b", 900.0, 0.0, 0),
            candidate("c", 9.0, 0.0, 0),
        ];
        all[0].state = VpsaState::Unreachable;
        all[1].mode = CapacityMode::Alert;
        let refused = choose(Allocator::Even, "gold", &all, 10.0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no VPSA of VSCStorageClass `gold` can take the volume: a: its state is Unreachable; b: its capacity \
             mode is alert; c: it has 9 GB available and 10 GB are needed"
        );
        let none = choose(Allocator::Even, "gold", &[], 10.0).unwrap_err();
        assert_eq!(
            none.to_string(),
            "VSCStorageClass `gold` has no VPSA: add one"
        );
        assert_eq!(
            choose(Allocator::Even, "gold", &all, 9.0).unwrap().name,
            "c"
        );
    }

    #[test]
    fn equal_arrays_are_taken_in_the_order_in_which_they_were_added() {
        let mut all = [candidate("a", 9.0, 0.0, 0), candidate("b", 9.0, 0.0, 0)];
        all[0].added = 7;
        all[1].added = 3;
        for allocator in [Allocator::Weighted, Allocator::Even, Allocator::Linear] {
            assert_eq!(choose(allocator, "class", &all, 1.0).unwrap().name, "b");
        }
    }
}
