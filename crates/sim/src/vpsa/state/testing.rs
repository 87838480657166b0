//! Arrays for tests of decisions.

use super::{
    Change, Controller, Decision, Delays, Moment, Object, Parameters, Pool, Server, State, Volume,
    Vpsa, servers, volumes,
};
use crate::moment::Millis;

/// When [`moment`] is.
pub const NOW: Millis = 1_000_000;

/// Everything takes 10 ms.
pub fn moment() -> Moment {
    Moment {
        now: NOW,
        secret: "0123456789abcdef".to_owned(),
        delays: Delays {
            creation: 10,
            clone: 10,
            snapshot: 10,
            removal: 10,
            expansion: 10,
            attachment: 10,
        },
    }
}

/// The same some time later, when things are done at once.
pub fn later() -> Moment {
    Moment {
        now: NOW + 1000,
        delays: Delays::default(),
        ..moment()
    }
}

/// An array with one pool of 100 GB, the recycle bin off.
pub fn state() -> State {
    let mut state = State::default();
    let objects = [
        Object::Vpsa(Vpsa {
            id: "vsa-0000002a".to_owned(),
            display_name: "test".to_owned(),
            release: "23.09-1".parse().unwrap(),
            chap_user: "user".to_owned(),
            chap_secret: "secret-secret".to_owned(),
            recycle_bin: false,
            all_flash: false,
            encryption: false,
            next_number: 1,
        }),
        Object::Controller(Controller {
            id: "vsa-0000002a-vc-0".to_owned(),
            state: "active".to_owned(),
        }),
        Object::Pool(Pool {
            id: "pool-00010001".to_owned(),
            display_name: "pool".to_owned(),
            capacity: 100,
            mode: "normal".to_owned(),
            status: "Normal".to_owned(),
        }),
    ];
    for object in objects {
        state.apply(Change::Put(object));
    }
    state
}

/// Carries a decision out; returns what is told.
pub fn carry_out<T>(state: &mut State, decision: Decision<T>) -> T {
    let (changes, told) = decision.unwrap();
    for change in changes {
        state.apply(change);
    }
    told
}

/// A volume that is ready.
pub fn volume(state: &mut State, name: &str, block: &str) -> Volume {
    let parameters: Parameters = [
        ("name", name),
        ("capacity", "10G"),
        ("pool", "pool-00010001"),
        ("block", block),
    ]
    .into();
    let moment = Moment {
        delays: Delays::default(),
        ..moment()
    };
    let decision = volumes::create(state, &parameters, &moment);
    let volume = carry_out(state, decision);
    let decision = volumes::filled(state, &volume.id);
    carry_out(state, decision);
    volume
}

/// A server.
pub fn server(state: &mut State, name: &str, ip: &str) -> Server {
    let iqn = format!("iqn.2026-01.test:{name}");
    let parameters: Parameters =
        [("display_name", name), ("iscsi", ip), ("iqn", iqn.as_str())].into();
    let decision = servers::create(state, &parameters, &moment());
    carry_out(state, decision)
}
