//! Which array a new volume goes to.

use stowage_api::vpsa::{CapacityMode, Segments, VpsaState};

use super::reserved::Refused;
use super::topology;

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
    /// How much of it is free, and not promised to others.
    pub available: f64,
    /// What it refused since it last told how much room it has.
    pub refused: Option<Refused>,
    /// The sum of the sizes of its volumes.
    pub provisioned: f64,
    /// How many volumes it has.
    pub volumes: u32,
    /// When it was added: a larger number later.
    pub added: i64,
    /// From where it is reached; empty is from everywhere.
    pub places: Vec<Segments>,
    /// How well that fits; the less, the better; not at all if none.
    pub rank: Option<usize>,
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
        if self.rank.is_none() {
            return Some(format!(
                "it is reached only from nodes with {}",
                topology::shown(&self.places)
            ));
        }
        let refused = self.refused.as_ref();
        if let Some(refused) = refused.filter(|it| gigabytes >= it.gigabytes) {
            return Some(refused.reason.clone());
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

/// Chooses. Where the volume is needed counts most; those that are equally good are taken in the order in which they were added.
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
        let nearer = a.rank.cmp(&b.rank);
        nearer.then(first.total_cmp(&second)).then(earlier)
    });
    best.ok_or_else(|| {
        let reason = |it: &Candidate| Some(format!("{}: {}", it.name, it.refusal(gigabytes)?));
        let mut reasons: Vec<String> = candidates.iter().filter_map(reason).collect();
        reasons.sort();
        NoArray::Refused {
            class: class.to_owned(),
            reasons,
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
            refused: None,
            provisioned,
            volumes,
            added: name.bytes().map(i64::from).sum(),
            places: Vec::new(),
            rank: Some(0),
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
    fn an_array_that_refused_as_much_is_not_asked_again_and_says_why() {
        let mut all = [candidate("a", 900.0, 0.0, 0), candidate("b", 50.0, 0.0, 0)];
        all[0].refused = Some(Refused {
            gigabytes: 40.0,
            reason: "it just refused 40 GB".to_owned(),
        });
        let chosen = |gigabytes| {
            let chosen = choose(Allocator::MostAvailableCapacity, "gold", &all, gigabytes);
            chosen.map(|it| it.name.clone())
        };
        assert_eq!(chosen(39.0).as_deref(), Ok("a"));
        assert_eq!(chosen(40.0).as_deref(), Ok("b"));
        let refused = chosen(60.0).unwrap_err().to_string();
        assert!(
            refused.contains("a: it just refused 40 GB; b: it has 50 GB"),
            "{refused}"
        );
    }

    #[test]
    fn where_a_volume_is_needed_counts_more_than_how_much_room_there_is() {
        let mut all = [candidate("a", 900.0, 0.0, 0), candidate("b", 90.0, 90.0, 9)];
        all[0].rank = Some(1);
        let chosen = choose(Allocator::MostAvailableCapacity, "class", &all, 10.0);
        assert_eq!(chosen.unwrap().name, "b");
        all[0].rank = None;
        all[0].places = vec![[("zone".to_owned(), "a".to_owned())].into()];
        let refused = choose(Allocator::Even, "gold", &all, 95.0).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("a: it is reached only from nodes with zone=a; b: it has 90 GB"),
            "{refused}"
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
