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
}
