//! What a new array has: two controllers, its pools, drives, and one access key.

use crate::moment::fresh_secret;
use crate::vpsa::Options;
use crate::vpsa::state::{
    AccessKey, Change, Controller, Drive, Object, Pool, RaidGroup, State, Vpsa,
};

const DEFAULT_RELEASE: &str = "23.09-sp1-100";
const DRIVES: usize = 4;

/// The changes that are missing: everything of a new array, another version of an old one.
pub fn missing(state: &State, options: &Options) -> Vec<Change> {
    if state.vpsa.is_empty() {
        return first_objects(options)
            .into_iter()
            .map(Change::Put)
            .collect();
    }
    let vpsa = state.vpsa();
    match &options.release {
        Some(release) if *release != vpsa.release => {
            let upgraded = Vpsa {
                release: release.clone(),
                ..vpsa.clone()
            };
            vec![Change::Put(Object::Vpsa(upgraded))]
        }
        _ => Vec::new(),
    }
}

fn first_objects(options: &Options) -> Vec<Object> {
    let release = options
        .release
        .clone()
        .or_else(|| DEFAULT_RELEASE.parse().ok())
        .expect("the default release is one");
    let id = format!("vsa-{}", fresh_secret(4));
    let mut objects = vec![
        Object::AccessKey(AccessKey {
            text: options.access_key.clone(),
            user: "admin".to_owned(),
        }),
        Object::RaidGroup(RaidGroup {
            id: "RaidGroup-1".to_owned(),
            status: "Normal".to_owned(),
        }),
    ];
    for (number, state) in ["active", "standby"].into_iter().enumerate() {
        objects.push(Object::Controller(Controller {
            id: format!("{id}-vc-{number}"),
            state: state.to_owned(),
        }));
    }
    for (number, (name, capacity)) in options.pool.iter().enumerate() {
        objects.push(Object::Pool(Pool {
            id: format!("pool-{:08x}", 0x0001_0001 + number),
            display_name: name.clone(),
            capacity: *capacity,
            mode: "normal".to_owned(),
            status: "Normal".to_owned(),
        }));
    }
    for number in 0..DRIVES {
        objects.push(Object::Drive(Drive {
            id: format!("volume-{:08x}", 0x0002_0001 + number),
            status: "Normal".to_owned(),
        }));
    }
    objects.push(Object::Vpsa(Vpsa {
        id,
        display_name: options.name.clone(),
        release,
        chap_user: format!("{}-user", options.name),
        chap_secret: fresh_secret(7),
        recycle_bin: true,
        all_flash: options.all_flash,
        encryption: false,
        next_number: 1,
    }));
    objects
}
