//! How node pods are replaced.

use std::time::Duration;

/// How node pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Node by node, at once: so many nodes at a time, or as many as Kubernetes does by itself.
    Rolling(Option<Limit>),
    /// When somebody deletes the old pod: a person, or the operator once the node is empty.
    OnDelete,
}

/// How many nodes may be without the driver at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many.
    Nodes(u32),
    /// This part of all, in percent.
    Percent(u32),
}

impl Limit {
    /// How many of `total` nodes that is: at least one, or nothing would ever happen.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Nodes(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100).max(1),
        }
    }
}

/// How nodes are emptied before their driver pod is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what an administrator decides, each for itself"
)]
pub struct DrainRules {
    /// Nodes at a time.
    pub limit: Limit,
    /// Whether no further node is begun with.
    pub is_paused: bool,
    /// How long one node may take.
    pub timeout: Duration,
    /// How long to wait where nobody can tell what is mounted.
    pub settle: Duration,
    /// Whether pods are evicted that nobody makes again.
    pub evicts_bare_pods: bool,
    /// Whether pods are evicted that lose an `emptyDir`.
    pub evicts_empty_dirs: bool,
    /// Whether pods of DaemonSets are left where they are.
    pub ignores_daemon_sets: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_up_and_never_nothing() {
        for (limit, total, expected) in [
            (Limit::Nodes(3), 2, 3),
            (Limit::Percent(10), 15, 2),
            (Limit::Percent(10), 20, 2),
            (Limit::Percent(1), 0, 1),
            (Limit::Percent(100), 7, 7),
        ] {
            assert_eq!(limit.of(total), expected, "{limit:?} of {total}");
        }
    }
}
