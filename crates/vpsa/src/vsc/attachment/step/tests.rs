//! From every state the steps lead to the right one, and a finished object stays as it is.

use serde_json::json;

use super::*;
use crate::vsc::worlds::{Luck, Lucks, World, settle};

const HOST: Host<'_> = Host {
    name: "n",
    ip: "10.0.0.1",
    iqn: "iqn.n",
};

const NEW: Observed<'_> = Observed {
    held: false,
    deleting: false,
    recorded: None,
    volume: true,
    host: Some(HOST),
    shared: false,
    session: false,
    seen: None,
    asked: false,
    in_use: false,
    repaired: false,
    may_be_used: false,
    marked: false,
    barred: false,
    twin: None,
};

#[test]
fn a_disk_that_may_be_in_use_is_marked_before_it_is_detached_and_bars_what_is_new() {
    let iscsi = spec("ISCSI");
    let attached = seen(Some(("n", "iqn.n")), Some(false));
    let detached = seen(Some(("n", "iqn.n")), None);
    let leaving = Observed {
        held: true,
        deleting: true,
        recorded: Some(&AttachmentState::Detaching),
        seen: Some(&attached),
        ..NEW
    };
    let used = Observed {
        may_be_used: true,
        ..leaving
    };
    let marked = Observed {
        marked: true,
        ..used
    };
    for (observed, expected) in [(leaving, "Detach"), (used, "Mark"), (marked, "Detach")] {
        assert_eq!(word(&iscsi, &observed), expected);
    }
    let barred = Observed {
        held: true,
        barred: true,
        seen: Some(&detached),
        ..NEW
    };
    assert_eq!(word(&iscsi, &barred), "Attaching/NodeNotClean");
    // What is attached already stays as it is.
    let there = Observed {
        seen: Some(&attached),
        session: true,
        ..barred
    };
    assert_eq!(word(&iscsi, &there), "Ready/Ready");
}

#[test]
fn nothing_new_is_attached_to_a_twin_and_what_is_attached_stays() {
    let twin = Reason::not_ready("DuplicateInitiator", "twins");
    let new = Observed {
        held: true,
        twin: Some(&twin),
        ..NEW
    };
    assert_eq!(word(&spec("ISCSI"), &new), "Failed/DuplicateInitiator");
    let attached = seen(Some(("n", "iqn.n")), Some(false));
    let there = Observed {
        recorded: Some(&AttachmentState::Ready),
        session: true,
        seen: Some(&attached),
        ..new
    };
    assert_eq!(word(&spec("ISCSI"), &there), "Ready/Ready");
}

fn spec(attach_type: &str) -> VolumeAttachmentSpec {
    let spec = json!({"volumeName": "v", "VSCNodeName": "n", "attachType": attach_type, "readOnly": false});
    serde_json::from_value(spec).unwrap()
}

fn seen(server: Option<(&str, &str)>, attached: Option<bool>) -> Seen {
    let server = server.map(|(name, iqn)| {
        json!({"name": "srv-1", "display_name": name, "iscsi_ip": "10.0.0.1", "iqn": iqn, "lun": 3, "target": "t"})
    });
    let attached = server.clone().zip(attached).map(|(mut server, read_only)| {
        server["read_only"] = read_only.into();
        server
    });
    Seen {
        server: server.map(|it| serde_json::from_value(it).unwrap()),
        attached: attached.map(|it| serde_json::from_value(it).unwrap()),
    }
}

fn word(wanted: &VolumeAttachmentSpec, observed: &Observed<'_>) -> String {
    match next_step(wanted, observed) {
        Step::Record(state, reason) => format!("{state}/{}", reason.word),
        step => format!("{step:?}"),
    }
}

#[test]
fn a_new_attachment_gets_a_server_record_and_is_attached() {
    let held = Observed { held: true, ..NEW };
    let (nothing, server) = (seen(None, None), seen(Some(("n", "iqn.n")), None));
    let attached = seen(Some(("n", "iqn.n")), Some(false));
    let look = |seen| Observed {
        seen: Some(seen),
        ..held
    };
    let (nfs, iscsi) = (spec("NFS"), spec("ISCSI"));
    let mut unfinished = attached.clone();
    if let Some(attached) = &mut unfinished.attached {
        attached.lun = None;
    }
    let asked = Observed {
        asked: true,
        ..look(&server)
    };
    let session = Observed {
        session: true,
        ..look(&attached)
    };
    for (wanted, observed, expected) in [
        (&nfs, NEW, "Hold"),
        (&nfs, held, "Ask"),
        (&nfs, look(&nothing), "CreateServer"),
        (&nfs, look(&server), "Attach"),
        (&nfs, asked, "Attaching/Attaching"),
        (&nfs, look(&attached), "Ready/Ready"),
        (
            &iscsi,
            look(&attached),
            "ISCSILoginPending/ISCSILoginPending",
        ),
        (&iscsi, session, "Ready/Ready"),
        (&nfs, look(&unfinished), "Ready/Ready"),
        (&iscsi, look(&unfinished), "Attaching/Attaching"),
    ] {
        assert_eq!(word(wanted, &observed), expected, "{observed:?}");
    }
}

#[test]
fn what_stands_in_the_way_is_said_and_a_record_that_was_edited_is_repaired() {
    let held = Observed { held: true, ..NEW };
    let bare = Host { iqn: "", ..HOST };
    let (edited, cut) = (
        seen(Some(("n", "iqn.other")), None),
        seen(Some(("n", "iqn.other")), Some(false)),
    );
    let read_only = seen(Some(("n", "iqn.n")), Some(true));
    let look = |seen| Observed {
        seen: Some(seen),
        ..held
    };
    let iscsi = spec("ISCSI");
    for (observed, expected) in [
        (
            Observed {
                volume: false,
                ..held
            },
            "Creating/NoVolume",
        ),
        (Observed { host: None, ..held }, "Creating/NoNode"),
        (
            Observed {
                host: Some(bare),
                ..held
            },
            "Failed/NodeNotFit",
        ),
        (look(&cut), "Detach"),
        (look(&edited), "RepairServer"),
        (
            Observed {
                repaired: true,
                ..look(&edited)
            },
            "Failed/ServerNotRepaired",
        ),
        (look(&read_only), "Failed/OtherMode"),
    ] {
        assert_eq!(word(&iscsi, &observed), expected, "{observed:?}");
    }
    // A share does not need the initiator's name.
    assert_eq!(word(&spec("NFS"), &look(&cut)), "Ready/Ready");
}

#[test]
fn it_is_detached_before_the_object_goes_and_the_last_takes_the_record_along() {
    let leaving = Observed {
        held: true,
        deleting: true,
        ..NEW
    };
    let (attached, server) = (
        seen(Some(("n", "iqn.n")), Some(false)),
        seen(Some(("n", "iqn.n")), None),
    );
    let (adopted, nothing) = (seen(Some(("theirs", "iqn.n")), None), seen(None, None));
    let look = |seen, recorded| Observed {
        seen: Some(seen),
        recorded: Some(recorded),
        ..leaving
    };
    let (ready, detaching, going) = (
        &AttachmentState::Ready,
        &AttachmentState::Detaching,
        &AttachmentState::Deleting,
    );
    let nfs = spec("NFS");
    for (observed, expected) in [
        (
            Observed {
                held: false,
                ..leaving
            },
            "Rest",
        ),
        (
            Observed {
                volume: false,
                ..leaving
            },
            "LetGo",
        ),
        (leaving, "Ask"),
        (look(&attached, ready), "Detaching/Detaching"),
        (look(&attached, detaching), "Detach"),
        (look(&server, detaching), "Deleting/Deleting"),
        (look(&server, going), "DeleteServer"),
        (
            Observed {
                shared: true,
                ..look(&server, going)
            },
            "LetGo",
        ),
        (
            Observed {
                in_use: true,
                ..look(&server, going)
            },
            "LetGo",
        ),
        (
            Observed {
                host: None,
                ..look(&server, going)
            },
            "DeleteServer",
        ),
        (look(&adopted, going), "LetGo"),
        (look(&nothing, going), "LetGo"),
    ] {
        assert_eq!(word(&nfs, &observed), expected, "{observed:?}");
    }
}

/// The object and the array, and what steps do to them.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct Whole {
    wanted: VolumeAttachmentSpec,
    held: bool,
    deleting: bool,
    recorded: Option<AttachmentState>,
    session: bool,
    /// In this look it was said on the VSCNode that the disk is detached in use; and in any.
    marked: (bool, bool),
    /// The initiator of the node's Server record.
    server: Option<&'static str>,
    /// Another volume is attached to that, so the array does not change it.
    is_used: bool,
    /// The node has a second record.
    second: bool,
    attached: bool,
    known: bool,
    asked: bool,
    in_use: bool,
    gone: bool,
}

impl Whole {
    fn may_be_used(&self) -> bool {
        self.session && self.wanted.attach_type == AttachType::Iscsi
    }
}

impl World for Whole {
    type Step = Step;

    fn next(&self) -> Option<Step> {
        let first = self.server.map(|iqn| ("n", iqn));
        let second = self.second.then_some(("n-iscsi", "iqn.n"));
        let seen = seen(second.or(first), self.attached.then_some(false));
        let observed = Observed {
            held: self.held,
            deleting: self.deleting,
            recorded: self.recorded.as_ref(),
            session: self.session,
            may_be_used: self.may_be_used(),
            marked: self.marked.0,
            seen: self.known.then_some(&seen),
            asked: self.asked,
            shared: self.is_used && !self.second,
            in_use: self.in_use,
            ..NEW
        };
        let step = next_step(&self.wanted, &observed);
        (!self.gone && step != Step::Rest).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        let is_told = luck == Luck::Done && *step == Step::Ask;
        self.known = is_told || (Self::is_record(step) && self.known);
        self.asked |= *step == Step::Attach;
        if luck == Luck::Failed {
            return;
        }
        match step {
            Step::Hold => self.held = true,
            Step::CreateServer if self.is_used => {
                assert!(!std::mem::replace(&mut self.second, true), "a third record");
            }
            Step::CreateServer => {
                assert_eq!(self.server.replace("iqn.n"), None, "a second record");
            }
            Step::RepairServer if self.is_used => self.in_use = luck == Luck::Done,
            Step::RepairServer => self.server = Some("iqn.n"),
            Step::Attach => self.attached = true,
            Step::Mark => self.marked = (luck == Luck::Done, true),
            Step::Detach => {
                let is_unsaid = self.deleting && self.may_be_used() && !self.marked.1;
                assert!(
                    !is_unsaid,
                    "its number is given away without a word: {self:?}"
                );
                self.attached = false;
            }
            Step::DeleteServer => {
                assert!(!self.attached, "it is attached");
                if !std::mem::take(&mut self.second) {
                    assert!(!self.is_used, "it is used");
                    self.server = None;
                }
            }
            Step::Record(state, _) => self.recorded = Some(state.clone()),
            Step::LetGo => self.gone = true,
            Step::Ask | Step::Rest => {}
        }
    }

    fn rest(&mut self) {
        (self.known, self.asked, self.in_use) = (false, false, false);
        self.marked.0 = false;
        // The node logs in when it is told to.
        self.session |= self.recorded == Some(AttachmentState::IscsiLoginPending);
    }

    fn is_record(step: &Step) -> bool {
        matches!(step, Step::Record(..))
    }

    fn asks(step: &Step) -> bool {
        *step == Step::Ask
    }
}

/// Every state that an object can have before we look at it for the first time.
fn starts() -> Vec<Whole> {
    let mut all = Vec::new();
    let servers = [
        (None, false),
        (Some("iqn.n"), false),
        (Some("iqn.n"), true),
        (Some("iqn.other"), false),
        (Some("iqn.other"), true),
    ];
    let states = AttachmentState::WORDS.iter();
    let states = states.map(|word| Some(AttachmentState::from(*word)));
    for recorded in states.chain([None]) {
        for (server, attached) in servers {
            for bits in 0..16 {
                all.push(Whole {
                    wanted: spec(if bits & 1 == 0 { "NFS" } else { "ISCSI" }),
                    held: true,
                    deleting: bits & 2 != 0,
                    recorded: recorded.clone(),
                    session: bits & 8 != 0,
                    marked: (false, false),
                    server,
                    is_used: bits & 4 != 0 && server.is_some(),
                    second: false,
                    attached,
                    known: false,
                    asked: false,
                    in_use: false,
                    gone: false,
                });
            }
        }
    }
    all
}

#[test]
fn from_any_state_and_whatever_fails_a_volume_is_attached_to_one_record_or_leaves_no_trace() {
    for start in starts() {
        for lucks in Lucks::all() {
            let end = settle(&start, lucks);
            let told = format!("{lucks:?}: {start:?} became {end:?}");
            let kept = start.server.filter(|_| start.is_used);
            if start.deleting {
                assert!(end.gone, "{told}");
                let left = (end.server, end.second, end.attached);
                assert_eq!(left, (kept, false, false), "{told}");
            } else {
                assert_eq!(end.recorded, Some(AttachmentState::Ready), "{told}");
                // A share needs the address only.
                let is_edited = start.server == Some("iqn.other");
                let is_share = start.wanted.attach_type == AttachType::Nfs;
                let stays = is_edited && (is_share || start.is_used);
                let server = if stays { "iqn.other" } else { "iqn.n" };
                let second = is_edited && !is_share && start.is_used;
                let there = (end.server, end.second, end.attached);
                assert_eq!(there, (Some(server), second, true), "{told}");
            }
        }
    }
}
