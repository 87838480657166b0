//! From every state a lost node is cut off before its pods go, and what bars a node is kept until it may go.

use super::*;
use crate::vsc::worlds::{Luck, Lucks, World, settle};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

fn lost(seconds: u64) -> Observed {
    Observed {
        exists: true,
        lost: Some(Duration::from_secs(seconds)),
        attachments: 2,
        ..Observed::default()
    }
}

#[test]
fn a_lost_node_is_fenced_then_detached_and_only_then_are_pods_released() {
    let mut node = lost(61);
    assert_eq!(next_step(&node, PATIENCE), Step::Fence);
    node.fenced = true;
    assert_eq!(next_step(&node, PATIENCE), Step::Detach);
    // What has begun is finished, however many others are lost meanwhile.
    node.too_many = true;
    assert_eq!(next_step(&node, PATIENCE), Step::Detach);
    node.attachments = 0;
    assert_eq!(next_step(&node, PATIENCE), Step::Release);
    node.released = true;
    assert_eq!(next_step(&node, PATIENCE), Step::Rest);
}

#[test]
fn a_node_that_is_back_is_let_in_when_nothing_of_before_is_left_in_the_cluster_or_there() {
    let mut node = Observed {
        fenced: true,
        lost: None,
        ..lost(61)
    };
    // Whatever is asked for by now.
    for patience in [PATIENCE, None] {
        assert_eq!(next_step(&node, patience), Step::Detach);
    }
    node.attachments = 0;
    assert_eq!(next_step(&node, PATIENCE), Step::Release);
    node.released = true;
    assert_eq!(next_step(&node, PATIENCE), Step::Ask);
    node.asked = true;
    assert_eq!(next_step(&node, PATIENCE), Step::Wait);
    node.clean = true;
    assert_eq!(next_step(&node, PATIENCE), Step::Readmit);
    // It was asked about what was attached then.
    node.attachments = 1;
    assert_eq!(next_step(&node, PATIENCE), Step::Detach);
    node.fenced = false;
    assert_eq!(next_step(&node, PATIENCE), Step::Rest);
}

#[test]
fn nothing_is_moved_too_early_without_being_asked_or_when_most_are_lost() {
    assert_eq!(next_step(&lost(59), PATIENCE), Step::Rest);
    assert_eq!(next_step(&lost(1000), None), Step::Rest);
    let most = Observed {
        too_many: true,
        ..lost(61)
    };
    assert_eq!(next_step(&most, PATIENCE), Step::Rest);
    let unused = Observed {
        attachments: 0,
        ..lost(61)
    };
    assert_eq!(next_step(&unused, PATIENCE), Step::Rest);
}

#[test]
fn a_record_goes_with_its_node_once_nothing_is_attached() {
    let gone = |attachments| Observed {
        attachments,
        ..Observed::default()
    };
    assert_eq!(next_step(&gone(1), None), Step::Rest);
    assert_eq!(next_step(&gone(0), None), Step::Forget);
}

#[test]
fn what_bars_a_node_outlives_its_node_object_until_somebody_lets_it_go() {
    let fenced = Observed {
        fenced: true,
        ..Observed::default()
    };
    let barred = Observed {
        barred: true,
        ..Observed::default()
    };
    for kept in [fenced, barred] {
        let with = |change: fn(&mut Observed)| {
            let mut observed = kept;
            change(&mut observed);
            next_step(&observed, None)
        };
        assert_eq!(with(|_| {}), Step::Rest);
        assert_eq!(with(|it| it.forget = true), Step::Dismiss);
        // Whoever is there is not forgotten, now or later.
        let back = with(|it| (it.forget, it.exists) = (true, true));
        assert_eq!(back, Step::Keep);
        let used = with(|it| (it.forget, it.attachments) = (true, 1));
        assert!(matches!(used, Step::Rest | Step::Detach), "{used:?}");
    }
}

#[test]
fn disks_that_were_detached_in_use_bar_a_node_until_it_has_answered_and_move_nothing() {
    let barred = Observed {
        exists: true,
        barred: true,
        attachments: 2,
        ..Observed::default()
    };
    let settled = Observed {
        settled: true,
        ..barred
    };
    for patience in [None, PATIENCE] {
        assert_eq!(next_step(&barred, patience), Step::WaitForDisks);
        assert_eq!(next_step(&settled, patience), Step::Settle);
    }
    let away = Observed {
        lost: Some(Duration::from_secs(59)),
        ..barred
    };
    assert_eq!(next_step(&away, None), Step::Rest);
    // A node that is given up is given up.
    let lost = Observed {
        lost: Some(Duration::from_secs(61)),
        ..barred
    };
    assert_eq!(next_step(&lost, PATIENCE), Step::Fence);
}

/// A node, its VSCNode and its volumes, and what steps do to them.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    node: Observed,
    /// Its volumes are being detached on their arrays.
    is_detaching: bool,
    /// Filesystems of before are still mounted there.
    dirty: bool,
    gone: bool,
}

impl World for Whole {
    type Step = Step;

    fn next(&self) -> Option<Step> {
        let step = next_step(&self.node, PATIENCE);
        let is_over = matches!(step, Step::Rest | Step::Wait | Step::WaitForDisks);
        (!self.gone && !is_over).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        if luck == Luck::Failed {
            return;
        }
        match step {
            Step::Forget => self.gone = true,
            Step::Fence => self.node.fenced = true,
            Step::Detach => {
                (self.node.asked, self.node.clean) = (false, false);
                self.is_detaching = true;
            }
            Step::Release => {
                let is_cut_off = self.node.fenced && self.node.attachments == 0;
                assert!(is_cut_off, "it may still write: {self:?}");
                self.node.released = true;
            }
            Step::Ask => self.node.asked = true,
            Step::Readmit => {
                let is_over = self.node.attachments == 0 && self.node.released;
                assert!(is_over && !self.dirty, "it may write into others: {self:?}");
                let node = &mut self.node;
                (node.fenced, node.asked, node.clean) = (false, false, false);
            }
            Step::Dismiss | Step::Keep | Step::Settle => unreachable!("nobody asks for it"),
            Step::Rest | Step::Wait | Step::WaitForDisks => {}
        }
    }

    fn rest(&mut self) {
        // Kubernetes has detached what was attached to a Node that is gone.
        if std::mem::take(&mut self.is_detaching) || !self.node.exists {
            self.node.attachments = 0;
        }
        // The node answers, and its kubelet unmounts what pods used that are gone.
        if self.node.fenced && self.node.lost.is_none() {
            self.node.clean |= self.node.asked && !self.dirty;
            self.dirty &= !self.node.released;
        }
    }

    /// One look does no more than these.
    fn is_record(step: &Step) -> bool {
        matches!(step, Step::Detach | Step::Release)
    }

    fn asks(_step: &Step) -> bool {
        false
    }
}

#[test]
fn from_any_state_and_whatever_fails_a_lost_node_is_cut_off_before_its_pods_go() {
    for seconds in [None, Some(59), Some(61)] {
        for bits in 0..128 {
            let [exists, too_many, fenced, is_used, released, asked, dirty] =
                [1, 2, 4, 8, 16, 32, 64].map(|bit| bits & bit != 0);
            let node = Observed {
                exists,
                lost: seconds.map(Duration::from_secs),
                too_many,
                fenced,
                attachments: if is_used { 2 } else { 0 },
                released,
                asked,
                ..Observed::default()
            };
            let start = Whole {
                node,
                is_detaching: false,
                dirty,
                gone: false,
            };
            for lucks in Lucks::all() {
                let end = settle(&start, lucks);
                let told = format!("{lucks:?}: {start:?} became {end:?}");
                let is_begun = fenced || (seconds == Some(61) && is_used && !too_many);
                let Observed {
                    fenced,
                    attachments,
                    released,
                    ..
                } = end.node;
                if !exists {
                    // A fence outlives its Node.
                    let is_kept = (end.gone, end.node.fenced) == (!fenced, fenced);
                    let is_released = end.node.released != start.node.released;
                    assert!(is_kept && !is_released, "{told}");
                } else if is_begun {
                    let is_back = seconds.is_none();
                    assert_eq!(
                        (released, attachments, fenced, end.dirty),
                        (true, 0, !is_back, dirty && !is_back),
                        "{told}"
                    );
                } else {
                    assert!(end == start, "{told}");
                }
            }
        }
    }
}
