//! What to do for a content. Pure: everything that counts is in the content itself.

use crate::cluster::content::{Content, Kind, Source};

/// The next thing to do for a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing, until it changes.
    Rest,
    /// Have the snapshot made, or ask by the same call whether it is ready by now.
    Make { volumes: Vec<String> },
    /// Ask what has become of a snapshot that exists.
    Look {
        handle: String,
        members: Vec<String>,
    },
    /// The call that the mark speaks of has been answered.
    Unmark,
    /// Have the snapshot deleted.
    Delete {
        handle: String,
        members: Vec<String>,
    },
    /// Let the content go.
    Release,
}

pub(super) fn next_step(content: &Content) -> Step {
    let state = &content.state;
    if may_go(content) {
        return leave(content);
    }
    if content.being_created && state.handle.is_some() {
        return Step::Unmark;
    }
    if state.ready {
        return Step::Rest;
    }
    match (&content.source, &state.handle) {
        (Source::Unclear, _) => Step::Rest,
        // Made with its group: the controller writes down what the group's answer says.
        (Source::Volumes(_), None) if content.member => Step::Rest,
        (Source::Volumes(_), Some(handle)) if content.member || content.kind == Kind::Group => {
            Step::Look {
                handle: handle.clone(),
                members: state.members.clone(),
            }
        }
        (Source::Volumes(volumes), _) => Step::Make {
            volumes: volumes.clone(),
        },
        (Source::Existing { handle, members }, _) => Step::Look {
            handle: handle.clone(),
            members: members.clone(),
        },
    }
}

/// Whether nobody needs the content any more. While a call may be under way it is not known what there is to delete.
fn may_go(content: &Content) -> bool {
    let unbound = matches!(content.source, Source::Existing { .. }) && content.owner.uid.is_empty();
    content.deleting && (unbound || content.being_deleted && !content.being_created)
}

fn leave(content: &Content) -> Step {
    if !content.has_finalizer() {
        // It exists only because somebody else holds it.
        return Step::Rest;
    }
    let state = &content.state;
    match &state.handle {
        Some(handle) if content.delete && state.group.is_none() => Step::Delete {
            handle: handle.clone(),
            members: match &content.source {
                Source::Existing { members, .. } if state.members.is_empty() => members.clone(),
                _ => state.members.clone(),
            },
        },
        _ => Step::Release,
    }
}

/// Whether a change is more than an echo of what we write ourselves: the status, the mark and the finalizer. An echo
/// would end the pause after a failure. The status of a group's member is the controller's.
pub(super) fn is_news(old: &Content, new: &Content) -> bool {
    let mut like_old = new.clone();
    like_old.finalizers.clone_from(&old.finalizers);
    like_old.being_created = old.being_created;
    like_old.annotated = old.annotated;
    if new.member {
        like_old.state.error.clone_from(&old.state.error);
    } else {
        like_old.state.clone_from(&old.state);
    }
    like_old != *old || (new.state.ready && !old.state.ready)
}

#[cfg(test)]
mod tests {
    use stowage_api::snapshot::names;

    use super::*;
    use crate::cluster::content::{Owner, State};

    fn content() -> Content {
        Content {
            kind: Kind::Single,
            name: "snapcontent-u".to_owned(),
            uid: "c".to_owned(),
            owner: Owner {
                namespace: "shop".to_owned(),
                name: "monday".to_owned(),
                uid: "u".to_owned(),
            },
            class: Some("fast".to_owned()),
            delete: true,
            source: Source::Volumes(vec!["vol-1".to_owned()]),
            node: None,
            member: false,
            being_created: false,
            being_deleted: false,
            secret: None,
            annotated: false,
            finalizers: vec![names::SNAPSHOT.finalizer.to_owned()],
            deleting: false,
            state: State::default(),
        }
    }

    fn existing() -> Content {
        let source = Source::Existing {
            handle: "snap-1".to_owned(),
            members: Vec::new(),
        };
        Content {
            source,
            ..content()
        }
    }

    fn made(ready: bool) -> State {
        State {
            handle: Some("snap-1".to_owned()),
            ready,
            ..State::default()
        }
    }

    fn deleted(content: Content) -> Content {
        Content {
            deleting: true,
            being_deleted: true,
            ..content
        }
    }

    fn make() -> Step {
        Step::Make {
            volumes: vec!["vol-1".to_owned()],
        }
    }

    fn delete() -> Step {
        Step::Delete {
            handle: "snap-1".to_owned(),
            members: Vec::new(),
        }
    }

    #[test]
    fn a_snapshot_is_made_and_asked_for_until_it_is_ready() {
        let mut content = content();
        assert_eq!(next_step(&content), make());
        content.being_created = true;
        assert_eq!(next_step(&content), make());
        content.state = made(false);
        assert_eq!(next_step(&content), Step::Unmark);
        content.being_created = false;
        assert_eq!(next_step(&content), make());
        content.state = made(true);
        assert_eq!(next_step(&content), Step::Rest);
    }

    #[test]
    fn a_failure_is_no_reason_to_rest() {
        let mut content = content();
        content.state.error = Some("busy".to_owned());
        assert_eq!(next_step(&content), make());
    }

    #[test]
    fn nothing_is_deleted_while_a_call_may_be_under_way() {
        let mut content = deleted(content());
        assert_eq!(next_step(&content), Step::Release);
        content.being_created = true;
        assert_eq!(next_step(&content), make());
        content.state = made(false);
        assert_eq!(next_step(&content), Step::Unmark);
        content.being_created = false;
        assert_eq!(next_step(&content), delete());
    }

    #[test]
    fn the_policy_decides_what_goes_with_the_content() {
        let mut content = deleted(content());
        content.state = made(true);
        assert_eq!(next_step(&content), delete());
        content.delete = false;
        assert_eq!(next_step(&content), Step::Release);
        content.finalizers.clear();
        assert_eq!(next_step(&content), Step::Rest);
    }

    #[test]
    fn a_content_whose_snapshot_lives_is_not_let_go() {
        let content = Content {
            deleting: true,
            state: made(true),
            ..content()
        };
        assert_eq!(next_step(&content), Step::Rest);
    }

    #[test]
    fn what_exists_is_looked_at_and_may_go_unbound() {
        let mut content = existing();
        let look = Step::Look {
            handle: "snap-1".to_owned(),
            members: Vec::new(),
        };
        assert_eq!(next_step(&content), look);
        content.state = made(true);
        content.owner.uid.clear();
        content.deleting = true;
        assert_eq!(next_step(&content), delete());
    }

    #[test]
    fn members_come_and_go_with_their_group() {
        let mut member = content();
        member.member = true;
        assert_eq!(next_step(&member), Step::Rest);
        member.state = State {
            group: Some("group-1".to_owned()),
            ..made(false)
        };
        assert!(matches!(next_step(&member), Step::Look { .. }));
        assert_eq!(next_step(&deleted(member)), Step::Release);
    }

    #[test]
    fn echoes_of_our_own_writes_are_no_news() {
        let old = content();
        let mut new = old.clone();
        new.being_created = true;
        new.annotated = true;
        new.finalizers.clear();
        new.state.error = Some("busy".to_owned());
        assert!(!is_news(&old, &new));
        new.state = made(true);
        assert!(is_news(&old, &new), "somebody else made it ready");
        let new = deleted(old.clone());
        assert!(is_news(&old, &new));

        let mut member = old.clone();
        member.member = true;
        let mut told = member.clone();
        told.state = made(false);
        assert!(is_news(&member, &told), "the controller wrote the handle");
    }
}
