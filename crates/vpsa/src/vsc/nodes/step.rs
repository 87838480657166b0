//! What is to be done next about a node. Nothing here does anything.

use std::time::Duration;

/// What is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The cluster has a Node of this name.
    pub exists: bool,
    /// For how long it has not been ready.
    pub lost: Option<Duration>,
    /// So many nodes are lost that it may be the cluster that does not see them.
    pub too_many: bool,
    /// The VSCNode says that it is fenced.
    pub fenced: bool,
    /// How many volumes are attached to it.
    pub attachments: usize,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete the VSCNode.
    Forget,
    /// Say that it is fenced, so that nothing is attached to it any more.
    Fence,
    /// Detach all volumes on their arrays.
    Detach,
    /// Let pods and volumes go: nobody can write there any more.
    Release,
    /// Say that it is not fenced any more.
    Readmit,
    /// Nothing.
    Rest,
}

/// What is to be done next. Without `patience` nothing is ever moved.
pub fn next_step(observed: &Observed, patience: Option<Duration>) -> Step {
    if !observed.exists {
        // Kubernetes detaches what was attached to a Node that is gone, and needs the record for it.
        return if observed.attachments == 0 {
            Step::Forget
        } else {
            Step::Rest
        };
    }
    let Some(lost) = observed.lost else {
        return if observed.fenced {
            Step::Readmit
        } else {
            Step::Rest
        };
    };
    if patience.is_none_or(|patience| lost < patience) {
        return Step::Rest;
    }
    match (observed.fenced, observed.attachments) {
        (false, 0) => Step::Rest,
        (false, _) if observed.too_many => Step::Rest,
        (false, _) => Step::Fence,
        (true, 0) => Step::Release,
        (true, _) => Step::Detach,
    }
}

#[cfg(test)]
mod tests {
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
        node.lost = None;
        assert_eq!(next_step(&node, PATIENCE), Step::Readmit);
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

    /// A node, its VSCNode and its volumes, and what steps do to them.
    #[derive(Clone, Debug, PartialEq)]
    struct Whole {
        node: Observed,
        /// Its volumes are being detached on their arrays.
        is_detaching: bool,
        released: bool,
        gone: bool,
    }

    impl World for Whole {
        type Step = Step;

        fn next(&self) -> Option<Step> {
            let step = next_step(&self.node, PATIENCE);
            (!self.gone && step != Step::Rest).then_some(step)
        }

        fn act(&mut self, step: &Step, luck: Luck) {
            if luck == Luck::Failed {
                return;
            }
            match step {
                Step::Forget => self.gone = true,
                Step::Fence => self.node.fenced = true,
                Step::Detach => self.is_detaching = true,
                Step::Release => {
                    let is_cut_off = self.node.fenced && self.node.attachments == 0;
                    assert!(is_cut_off, "it may still write: {self:?}");
                    self.released = true;
                }
                Step::Readmit => self.node.fenced = false,
                Step::Rest => {}
            }
        }

        fn rest(&mut self) {
            // Kubernetes has detached what was attached to a Node that is gone.
            if std::mem::take(&mut self.is_detaching) || !self.node.exists {
                self.node.attachments = 0;
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
            for bits in 0..16 {
                let [exists, too_many, fenced, is_used] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
                let node = Observed {
                    exists,
                    lost: seconds.map(Duration::from_secs),
                    too_many,
                    fenced,
                    attachments: if is_used { 2 } else { 0 },
                };
                let start = Whole {
                    node,
                    is_detaching: false,
                    released: false,
                    gone: false,
                };
                for lucks in Lucks::all() {
                    let end = settle(&start, lucks);
                    let told = format!("{lucks:?}: {start:?} became {end:?}");
                    let is_given_up = seconds == Some(61) && (fenced || (is_used && !too_many));
                    if !exists {
                        assert!(end.gone && !end.released, "{told}");
                    } else if is_given_up {
                        let left = (end.node.fenced, end.node.attachments);
                        assert!(end.released && left == (true, 0), "{told}");
                    } else {
                        let stays = Observed {
                            fenced: fenced && seconds.is_some(),
                            ..node
                        };
                        assert!(!end.released && end.node == stays, "{told}");
                    }
                }
            }
        }
    }
}
