//! What is to be done next about a node. Nothing here does anything.

use std::time::Duration;

/// What is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
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
    /// Kubernetes has no record any more of volumes that were attached to it when it was fenced.
    pub released: bool,
    /// It was asked whether something of before is left there.
    pub asked: bool,
    /// Its answer to that: nothing is.
    pub clean: bool,
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
    /// Ask the node whether a mount, a disk or a session of before is left there.
    Ask,
    /// Nothing, until the node has answered.
    Wait,
    /// Say that it is not fenced any more.
    Readmit,
    /// Nothing.
    Rest,
}

/// What is to be done next. Without `patience` nothing is begun.
pub fn next_step(observed: &Observed, patience: Option<Duration>) -> Step {
    if !observed.exists {
        // Kubernetes detaches what was attached to a Node that is gone, and needs the record for it.
        return if observed.attachments == 0 {
            Step::Forget
        } else {
            Step::Rest
        };
    }
    if observed.fenced {
        return finish(observed);
    }
    match (observed.lost, patience) {
        (Some(lost), Some(patience)) if lost >= patience => {
            if observed.attachments == 0 || observed.too_many {
                Step::Rest
            } else {
                Step::Fence
            }
        }
        _ => Step::Rest,
    }
}

/// What has begun is finished, although the node may be back: its filesystems are still mounted, and a disk that is attached
/// again may get the number of another, into which it would write what it still has of that.
fn finish(observed: &Observed) -> Step {
    if observed.attachments > 0 {
        Step::Detach
    } else if !observed.released {
        Step::Release
    } else if observed.lost.is_some() {
        Step::Rest
    } else if !observed.asked {
        Step::Ask
    } else if !observed.clean {
        Step::Wait
    } else {
        Step::Readmit
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
            (!self.gone && !matches!(step, Step::Rest | Step::Wait)).then_some(step)
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
                Step::Rest | Step::Wait => {}
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
                    clean: false,
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
                        assert!(
                            end.gone && end.node.released == start.node.released,
                            "{told}"
                        );
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
}
