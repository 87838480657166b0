//! What to do about a volume, decided from its object and where it is attached. Pure.

use crate::cluster::volume::{DELETION_PROTECTION, PROVISIONED_BY, Phase, Reclaim, Volume};

/// The next thing to do for a volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// It is of an in-tree plugin: nobody translates it.
    TellInTree,
    /// It looks as if nobody wanted it, but it may have been kept on purpose.
    Keep(Doubt),
    /// It is attached somewhere: a change of the attachment brings it back.
    Wait,
    Protect,
    Unprotect,
    Delete,
}

/// Why a volume is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A person made its object, and Kubernetes marks it Failed or is about to.
    Static,
    /// A person took the reference to its claim away.
    Cleared,
}

impl Doubt {
    /// What is said of the volume.
    pub(super) fn explain(self, driver: &str) -> String {
        match self {
            Self::Static => format!(
                "no provisioner made this volume, and Kubernetes before 1.30 leaves such a one Failed when its claim goes: it is kept \
                 with its data. To have it deleted, annotate it with `{PROVISIONED_BY}: {driver}`; to use it again, remove \
                 spec.claimRef"
            ),
            Self::Cleared => "somebody removed its spec.claimRef, as one does to use a volume again: it is kept with its data. To \
                              have it deleted, bind it to a claim and delete that"
                .to_owned(),
        }
    }
}

/// Decides. `releases_static`: the cluster leaves static volumes Released, and does not mark them Failed.
pub(super) fn next_step(volume: &Volume, attachments: usize, releases_static: bool) -> Step {
    if !volume.ours_to_delete {
        return Step::Nothing;
    }
    let protected = volume.has_finalizer(DELETION_PROTECTION);
    if volume.reclaim == Reclaim::Keep {
        return if protected {
            Step::Unprotect
        } else {
            Step::Nothing
        };
    }
    let claimless = matches!(volume.phase, Phase::Released | Phase::Failed);
    if volume.is_in_tree() {
        return if claimless {
            Step::TellInTree
        } else {
            Step::Nothing
        };
    }
    if volume.deleting && !protected {
        // Somebody else let it go: the volume was deleted, or an administrator decided to keep it.
        return Step::Nothing;
    }
    if !claimless {
        return if volume.phase == Phase::Bound && !protected {
            Step::Protect
        } else {
            Step::Nothing
        };
    }
    match doubt(volume, releases_static) {
        // Whoever deletes the object of such a volume need not wait for us: the data stays.
        Some(Doubt::Static) if volume.deleting => Step::Unprotect,
        Some(doubt) => Step::Keep(doubt),
        None if attachments > 0 => Step::Wait,
        None => Step::Delete,
    }
}

fn doubt(volume: &Volume, releases_static: bool) -> Option<Doubt> {
    if volume.claim.is_none() {
        // The phase follows later.
        return Some(Doubt::Cleared);
    }
    // Between Released and Failed are moments: without this it would be chance whether a volume is deleted.
    let is_sure = volume.provisioned || volume.is_released() && releases_static;
    (!is_sure).then_some(Doubt::Static)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::CSIPersistentVolumeSource;

    use super::*;
    use crate::cluster::volume::{ClaimKey, CsiSource, DeletionSecret};

    fn volume(phase: Phase, reclaim: Reclaim, protected: bool, deleting: bool) -> Volume {
        Volume {
            name: "pvc-1".to_owned(),
            uid: "u".to_owned(),
            phase,
            reclaim,
            claim: Some(ClaimKey {
                namespace: "shop".to_owned(),
                name: "data".to_owned(),
                uid: "gone".to_owned(),
            }),
            size: 1,
            grew: false,
            attributes_class: None,
            modify_secret: None,
            csi: CSIPersistentVolumeSource {
                volume_handle: "v".to_owned(),
                ..CSIPersistentVolumeSource::default()
            }
            .into(),
            access_modes: Vec::new(),
            mount_options: Vec::new(),
            block: false,
            class: None,
            affinity: None,
            ours_to_delete: true,
            provisioned: true,
            deletion_secret: DeletionSecret::None,
            finalizers: if protected {
                vec![DELETION_PROTECTION.to_owned()]
            } else {
                Vec::new()
            },
            deleting,
        }
    }

    #[test]
    fn every_state_of_a_volume_has_its_step() {
        use Phase::{Bound, Failed, Other, Released};
        use Reclaim::{Delete, Keep};
        for (phase, reclaim, protected, deleting, attachments, expected) in [
            (Bound, Delete, true, false, 1, Step::Nothing),
            (Bound, Delete, false, false, 0, Step::Protect),
            (Bound, Delete, true, true, 0, Step::Nothing),
            (Other, Delete, true, false, 0, Step::Nothing),
            (Released, Delete, true, false, 0, Step::Delete),
            (Released, Delete, false, false, 0, Step::Delete),
            (Released, Delete, true, true, 0, Step::Delete),
            (Released, Delete, false, true, 0, Step::Nothing),
            (Released, Delete, true, false, 1, Step::Wait),
            (Released, Keep, true, false, 0, Step::Unprotect),
            (Released, Keep, false, false, 0, Step::Nothing),
            (Bound, Keep, true, true, 0, Step::Unprotect),
            (Failed, Delete, true, false, 0, Step::Delete),
            (Failed, Delete, true, false, 1, Step::Wait),
            (Failed, Keep, true, false, 0, Step::Unprotect),
        ] {
            let volume = volume(phase, reclaim, protected, deleting);
            for releases_static in [false, true] {
                let step = next_step(&volume, attachments, releases_static);
                assert_eq!(step, expected, "{volume:?}");
            }
        }
        let mut in_tree = volume(Released, Delete, true, false);
        in_tree.csi = CsiSource::default();
        for phase in [Released, Failed] {
            in_tree.phase = phase;
            assert_eq!(next_step(&in_tree, 0, true), Step::TellInTree);
        }
        in_tree.phase = Bound;
        assert_eq!(next_step(&in_tree, 0, true), Step::Nothing);
        let mut foreign = volume(Released, Delete, true, false);
        foreign.ours_to_delete = false;
        assert_eq!(next_step(&foreign, 0, true), Step::Nothing);
    }

    #[test]
    fn what_may_have_been_kept_on_purpose_is_kept() {
        use Phase::{Bound, Failed, Released};
        let kept = |doubt| Step::Keep(doubt);
        for (phase, deleting, releases_static, expected) in [
            (Bound, false, false, Step::Nothing),
            (Released, false, true, Step::Delete),
            (Released, true, true, Step::Delete),
            (Released, false, false, kept(Doubt::Static)),
            (Failed, false, false, kept(Doubt::Static)),
            (Failed, false, true, kept(Doubt::Static)),
            (Failed, true, true, Step::Unprotect),
            (Failed, true, false, Step::Unprotect),
        ] {
            let mut volume = volume(phase, Reclaim::Delete, true, deleting);
            volume.provisioned = false;
            let step = next_step(&volume, 0, releases_static);
            assert_eq!(step, expected, "{volume:?}, {releases_static}");
        }
        for (phase, provisioned) in [(Released, true), (Failed, true), (Released, false)] {
            let mut volume = volume(phase, Reclaim::Delete, true, false);
            volume.provisioned = provisioned;
            volume.claim = None;
            let step = next_step(&volume, 0, true);
            assert_eq!(step, kept(Doubt::Cleared), "{volume:?}");
        }
    }
}
