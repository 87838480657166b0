//! What to do for a claim whose VolumeAttributesClass changed, decided from its status. Pure.

use crate::cluster::wire::WireClaim;

/// A claim as it is now, as far as its VolumeAttributesClass goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) uid: String,
    pub(super) version: String,
    /// What is asked for.
    pub(super) wanted: Option<String>,
    /// What the volume has.
    pub(super) current: Option<String>,
    /// What it is being changed to.
    pub(super) begun: Option<Begun>,
    /// The conditions of modification that are true, with their messages.
    pub(super) conditions: Vec<(String, String)>,
}

/// A change under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) target: String,
    pub(super) stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The class is missing: the driver has not been called.
    Pending,
    /// The driver has been called, or is about to be.
    InProgress,
    /// The driver will never do it.
    Infeasible,
}

/// Condition types of modification.
pub(super) const MODIFYING: &str = "ModifyingVolume";
pub(super) const MODIFY_ERROR: &str = "ModifyVolumeError";

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Rest,
    /// Change the volume to this class.
    Modify(String),
    /// No class is wanted any more, there was none before, and the driver will not make the change.
    Cancel,
}

impl Stage {
    fn read(text: &str) -> Self {
        match text {
            "Infeasible" => Self::Infeasible,
            "Pending" => Self::Pending,
            // A stage from the future is more likely begun than not.
            _ => Self::InProgress,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::InProgress => "InProgress",
            Self::Infeasible => "Infeasible",
        }
    }
}

impl Progress {
    pub(super) fn read(claim: &WireClaim) -> Self {
        let some = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let status = &claim.status;
        let begun = status.modify_volume_status.as_ref().map(|begun| Begun {
            target: some(&begun.target_volume_attributes_class_name).unwrap_or_default(),
            stage: Stage::read(&begun.status),
        });
        let conditions = status.conditions.iter();
        Self {
            uid: claim.metadata.uid.clone().unwrap_or_default(),
            version: claim.metadata.resource_version.clone().unwrap_or_default(),
            wanted: some(&claim.spec.volume_attributes_class_name),
            current: some(&status.current_volume_attributes_class_name),
            begun,
            conditions: conditions
                .filter(|one| one.status == "True")
                .filter(|one| one.r#type == MODIFYING || one.r#type == MODIFY_ERROR)
                .map(|one| (one.r#type.clone(), one.message.clone()))
                .collect(),
        }
    }

    pub(super) fn message(&self, condition: &str) -> Option<&str> {
        let mut all = self.conditions.iter();
        all.find(|(kind, _)| kind == condition)
            .map(|(_, message)| message.as_str())
    }
}

/// Decides. `refused`: this process knows that the driver said no to what has begun; otherwise it may be at work on it,
/// and must be asked for the same until it says how that ended. One that said no may have done half of it all the same:
/// going back to the class that the volume had is a change like any other.
pub(super) fn next_step(claim: &Progress, refused: bool) -> Step {
    let open = claim.begun.as_ref();
    let open = open.filter(|begun| begun.stage == Stage::InProgress && !begun.target.is_empty());
    match (&claim.wanted, &claim.begun, open) {
        (_, _, Some(open)) if !refused => Step::Modify(open.target.clone()),
        (Some(wanted), Some(_), _) => Step::Modify(wanted.clone()),
        (Some(wanted), None, _) if claim.current.as_ref() != Some(wanted) => {
            Step::Modify(wanted.clone())
        }
        // There is no class to go back to.
        (None, _, Some(open)) => Step::Modify(open.target.clone()),
        (None, Some(_), None) => Step::Cancel,
        (_, None, _) => Step::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(wanted: &str, current: &str, begun: Option<(&str, Stage)>) -> Progress {
        let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Progress {
            wanted: some(wanted),
            current: some(current),
            begun: begun.map(|(target, stage)| Begun {
                target: target.to_owned(),
                stage,
            }),
            ..Progress::default()
        }
    }

    #[test]
    fn every_state_of_a_claim_has_its_step() {
        use Stage::{InProgress, Infeasible, Pending};
        let modify = |name: &str| Step::Modify(name.to_owned());
        for (wanted, current, begun, refused, expected) in [
            ("", "", None, false, Step::Rest),
            ("gold", "gold", None, false, Step::Rest),
            ("", "gold", None, false, Step::Rest),
            ("gold", "", None, false, modify("gold")),
            ("gold", "iron", None, false, modify("gold")),
            (
                "gold",
                "iron",
                Some(("gold", Pending)),
                false,
                modify("gold"),
            ),
            (
                "gold",
                "iron",
                Some(("gold", InProgress)),
                false,
                modify("gold"),
            ),
            (
                "gold",
                "iron",
                Some(("gold", Infeasible)),
                false,
                modify("gold"),
            ),
            // Another one is wanted meanwhile.
            (
                "gold",
                "iron",
                Some(("lead", InProgress)),
                false,
                modify("lead"),
            ),
            (
                "gold",
                "iron",
                Some(("lead", InProgress)),
                true,
                modify("gold"),
            ),
            (
                "gold",
                "iron",
                Some(("lead", Infeasible)),
                false,
                modify("gold"),
            ),
            (
                "gold",
                "iron",
                Some(("lead", Pending)),
                false,
                modify("gold"),
            ),
            // What was is wanted again.
            (
                "iron",
                "iron",
                Some(("gold", InProgress)),
                false,
                modify("gold"),
            ),
            (
                "iron",
                "iron",
                Some(("gold", InProgress)),
                true,
                modify("iron"),
            ),
            (
                "iron",
                "iron",
                Some(("gold", Infeasible)),
                false,
                modify("iron"),
            ),
            // Something else may have begun before the class that was missing.
            (
                "iron",
                "iron",
                Some(("gold", Pending)),
                false,
                modify("iron"),
            ),
            (
                "iron",
                "iron",
                Some(("iron", InProgress)),
                true,
                modify("iron"),
            ),
            // None is wanted, and there was none.
            ("", "", Some(("gold", Infeasible)), false, Step::Cancel),
            ("", "", Some(("gold", Pending)), false, Step::Cancel),
            ("", "", Some(("gold", InProgress)), false, modify("gold")),
            ("", "", Some(("gold", InProgress)), true, modify("gold")),
        ] {
            let claim = claim(wanted, current, begun);
            assert_eq!(next_step(&claim, refused), expected, "{claim:?}, {refused}");
        }
    }
}
