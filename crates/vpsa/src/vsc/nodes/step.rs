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
    /// Disks were detached from it that it may have had in use.
    pub barred: bool,
    /// Its answer to that, since they are detached: none of them is left.
    pub settled: bool,
    /// Somebody says that its machine does not come back.
    pub forget: bool,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete the VSCNode.
    Forget,
    /// Remove its Server records from all arrays; then delete the VSCNode with its fence.
    Dismiss,
    /// Take back that its machine does not come back: it has.
    Keep,
    /// Say that no disk is left there that was detached in use.
    Settle,
    /// Nothing, until the node has said that no such disk is left.
    WaitForDisks,
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
        return without_node(observed);
    }
    if observed.forget {
        return Step::Keep;
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
        _ => disks(observed),
    }
}

/// Its Node is gone, and its machine may still run: whoever starts its kubelet again has the same mounts as before. So what bars it
/// is kept until somebody says that the machine is gone, too.
fn without_node(observed: &Observed) -> Step {
    let is_barred = observed.fenced || observed.barred;
    if observed.attachments > 0 {
        // Kubernetes detaches what was attached to a Node that is gone, and needs the record for it. A fence is finished.
        return if observed.fenced {
            Step::Detach
        } else {
            Step::Rest
        };
    }
    if observed.barred && observed.settled {
        Step::Settle
    } else if !is_barred {
        Step::Forget
    } else if observed.forget {
        Step::Dismiss
    } else {
        Step::Rest
    }
}

/// Disks that were detached in use. Of a node that is not ready no answer is expected.
fn disks(observed: &Observed) -> Step {
    if observed.barred && observed.settled {
        Step::Settle
    } else if observed.barred && observed.lost.is_none() {
        Step::WaitForDisks
    } else {
        Step::Rest
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
mod tests;
