use super::*;
use crate::vpsa::state::testing::{carry_out, later, moment, server, state, volume};

#[test]
fn a_server_is_known_by_one_name_one_initiator_and_one_address() {
    let mut state = state();
    let host = server(&mut state, "host", "10.0.0.1");
    assert_eq!(host.chap_secret, "secret-secret", "the array's own");
    for (parameters, code) in [
        (vec![("iscsi", "10.0.0.2")], 20012),
        (vec![("display_name", "new")], 20012),
        (vec![("display_name", "new"), ("iscsi", "10.0.0")], 20012),
        (vec![("display_name", "new"), ("iqn", "nonsense")], 20012),
        (vec![("display_name", "host"), ("iscsi", "10.0.0.2")], 20004),
        (vec![("display_name", "new"), ("iscsi", "10.0.0.1")], 20004),
        (
            vec![("display_name", "new"), ("iqn", "iqn.2026-01.test:host")],
            20004,
        ),
        (
            vec![
                ("display_name", "new"),
                ("iqn", "iqn.x"),
                ("vpsachapuser", "u"),
                ("vpsachapsecret", "short"),
            ],
            20012,
        ),
        (
            vec![("display_name", "new"), ("iqn", "iqn.x"), ("colour", "red")],
            20012,
        ),
    ] {
        let mut asked = Parameters::default();
        for (name, value) in &parameters {
            asked.add(name, &(*value).into());
        }
        let refused = create(&state, &asked, &moment()).unwrap_err();
        assert_eq!(refused.code(), code, "{parameters:?}: {refused}");
    }
    let forced = [
        ("display_name", "new"),
        ("iscsi", "10.0.0.1"),
        ("force", "YES"),
    ];
    assert!(create(&state, &forced.into(), &moment()).is_ok());
}

#[test]
fn a_server_with_volumes_is_neither_changed_nor_deleted() {
    let mut state = state();
    let host = server(&mut state, "host", "10.0.0.1");
    let disk = volume(&mut state, "disk", "YES");
    let hosts = [host.id.clone()];
    let asked = [("volume_name", disk.id.as_str())].into();
    let decision = attach(&state, &hosts, &asked, &later());
    carry_out(&mut state, decision);
    let moved: Parameters = [("iscsi", "10.0.0.9")].into();
    assert_eq!(
        configure(&state, &host.id, &moved).unwrap_err().code(),
        20006
    );
    let none = Parameters::default();
    assert_eq!(delete(&state, &host.id, &none).unwrap_err().code(), 20006);
    let decision = detach(
        &state,
        &disk.id,
        &[("servers", host.id.as_str())].into(),
        later().now,
    );
    carry_out(&mut state, decision);
    let decision = configure(&state, &host.id, &moved);
    assert_eq!(carry_out(&mut state, decision).ip, "10.0.0.9");
    let decision = delete(&state, &host.id, &none);
    carry_out(&mut state, decision);
    assert_eq!(delete(&state, &host.id, &none).unwrap_err().code(), 10086);
}

#[test]
fn disks_get_the_lowest_number_and_keep_it() {
    let mut state = state();
    let hosts = [("a", "10.0.0.1"), ("b", "10.0.0.2")];
    let hosts = hosts.map(|(name, ip)| server(&mut state, name, ip).id);
    let disks = ["one", "two", "three"].map(|name| volume(&mut state, name, "YES").id);
    let put = |state: &mut State, hosts: &[String], disk: &str| -> Vec<u64> {
        let decision = attach(state, hosts, &[("volume_name", disk)].into(), &later());
        let made = carry_out(state, decision);
        made.iter().map(|attachment| attachment.lun).collect()
    };
    assert_eq!(put(&mut state, &hosts, &disks[0]), [0, 0]);
    assert_eq!(put(&mut state, &hosts[..1], &disks[1]), [1]);
    assert_eq!(
        put(&mut state, &hosts[..1], &disks[1]),
        [1],
        "twice is once"
    );
    let off = [("servers", hosts[0].as_str())].into();
    let decision = detach(&state, &disks[0], &off, later().now);
    carry_out(&mut state, decision);
    assert_eq!(put(&mut state, &hosts, &disks[2]), [0, 1]);
    let twice = detach(&state, &disks[0], &off, later().now).unwrap_err();
    assert_eq!(twice.code(), 20007, "{twice}");
}

#[test]
fn shares_and_disks_are_attached_each_in_its_way() {
    let mut state = state();
    let host = server(&mut state, "host", "10.0.0.1").id;
    let nameless = [("display_name", "initiator"), ("iqn", "iqn.x")].into();
    let decision = create(&state, &nameless, &moment());
    let initiator = carry_out(&mut state, decision).id;
    let (disk, share) = (
        volume(&mut state, "disk", "YES").id,
        volume(&mut state, "share", "NO").id,
    );
    for (server, volume, access, fits) in [
        (&host, &disk, None, true),
        (&initiator, &disk, None, true),
        (&host, &share, Some("NFS"), true),
        (&host, &share, None, true),
        (&initiator, &share, Some("NFS"), false),
        (&host, &disk, Some("NFS"), false),
        (&host, &share, Some("FTP"), false),
    ] {
        let mut asked: Parameters = [("volume_name", volume.as_str())].into();
        if let Some(access) = access {
            asked.add("access_type", &access.into());
        }
        let decided = attach(&state, std::slice::from_ref(server), &asked, &later());
        assert_eq!(decided.is_ok(), fits, "{server} {volume} {access:?}");
    }
    let unknown = attach(
        &state,
        &["srv-00000099".to_owned()],
        &[("volume_name", disk.as_str())].into(),
        &later(),
    );
    assert_eq!(unknown.unwrap_err().code(), 10086);
}

#[test]
fn an_initiator_is_known_by_name_before_address() {
    let mut state = state();
    let named = server(&mut state, "named", "10.0.0.1").id;
    let nameless = [("display_name", "address"), ("iscsi", "10.0.0.0/24")].into();
    let decision = create(&state, &nameless, &moment());
    let network = carry_out(&mut state, decision).id;
    let who = |iqn: &str, address: &str| {
        let found = of_initiator(&state, iqn, address.parse().unwrap());
        found.map(|server| server.id.clone())
    };
    assert_eq!(who("iqn.2026-01.test:named", "192.168.0.1"), Some(named));
    assert_eq!(who("iqn.unknown", "10.0.0.200"), Some(network));
    assert_eq!(who("iqn.unknown", "192.168.0.1"), None);
}
