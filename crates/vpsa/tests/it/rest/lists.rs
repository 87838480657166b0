//! Lists: page by page, and while they change.

use std::collections::BTreeSet;

use stowage_sim::vpsa::state::{Object, Volume};
use stowage_vpsa::rest::api::Kind;

use crate::rest::rig::{Rig, done};

/// Puts volumes into the array that nobody made.
async fn fill(rig: &Rig, count: u32) {
    let id = rig.volume("seed", Kind::Nas).await.id;
    let state = rig.array.control().objects().await.unwrap();
    let seed = &state.volumes[id.as_str()];
    for number in 0..count {
        let volume = Volume {
            id: format!("volume-{:08x}", 0x1000 + number),
            cg: format!("cg-{:08x}", 0x1000 + number),
            display_name: format!("v-{number}"),
            capacity: 0,
            ..seed.clone()
        };
        rig.array
            .control()
            .put(Object::Volume(volume))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_list_is_read_to_its_last_page() {
    let rig = Rig::new().await;
    fill(&rig, 1100).await;
    rig.array.control().take_requests().await.unwrap();
    let volumes = rig.api().volumes().await.unwrap();
    let names: BTreeSet<_> = volumes.iter().map(|volume| &volume.display_name).collect();
    assert_eq!((volumes.len(), names.len()), (1101, 1101));
    let asked = rig.array.control().take_requests().await.unwrap();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let found = rig.api().volume_named("v-1099").await.unwrap().unwrap();
    assert_eq!(found.display_name, "v-1099");
    let asked = rig.array.control().take_requests().await.unwrap();
    assert_eq!(asked.len(), 1, "the array's own filter is used");
}

#[tokio::test]
async fn a_list_whose_length_is_a_whole_number_of_pages_ends() {
    let rig = Rig::new().await;
    fill(&rig, 499).await;
    assert_eq!(rig.api().volumes().await.unwrap().len(), 500);
}

#[tokio::test]
async fn nothing_is_missed_when_something_is_removed_while_the_list_is_read() {
    let rig = Rig::new().await;
    fill(&rig, 700).await;
    let api = rig.api();
    done(api.set_recycle_bin(false).await.unwrap());
    // What lists page by page, and what deletes from the first page meanwhile.
    let lister = tokio::spawn({
        let api = rig.api();
        async move {
            let mut lists = Vec::new();
            for _ in 0..20 {
                lists.push(api.volumes().await.unwrap());
            }
            lists
        }
    });
    for number in 0..40 {
        let id = format!("volume-{:08x}", 0x1000 + number).parse().unwrap();
        done(api.delete_volume(&id, false).await.unwrap());
    }
    for list in lister.await.unwrap() {
        let found: BTreeSet<_> = list.iter().map(|volume| &*volume.display_name).collect();
        for number in 40..700 {
            let name = format!("v-{number}");
            assert!(found.contains(name.as_str()), "{name} is missing");
        }
    }
}
