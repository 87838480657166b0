//! From every state the steps lead to the right one, and a finished object stays as it is.

use serde_json::json;

use super::*;

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
};

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
