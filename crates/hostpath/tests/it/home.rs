//! Where the volumes live, and where they may not.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use clap::Parser;
use stowage_csi::server::Shutdown;
use tokio_util::sync::CancellationToken;

use crate::rig::{Command, Rig, filesystem, flags, text};
use crate::support::{MIB, isolated, small_disk, tool, unmount};

/// What a driver says that does not start.
async fn refusal(directory: &Path, state: &Path) -> String {
    let flag = format!("--statedir={}", state.display());
    let args = Command::parse_from(flags(directory, &[&flag])).args;
    let token = CancellationToken::new();
    // One that starts in spite of all ends at once.
    token.cancel();
    let shutdown = Shutdown {
        token,
        grace: std::time::Duration::ZERO,
    };
    let ended = stowage_hostpath::run(args, Default::default(), shutdown).await;
    ended.unwrap_err().to_string()
}

isolated! {
    async fn memory_is_no_place_for_new_volumes_and_those_that_are_there_are_served(directory: &Path) {
        let state = small_disk(directory, 128 * MIB);
        let said = refusal(directory, &state).await;
        for word in ["tmpfs", &text(&state), "--statedir", "--allow-volatile-statedir"] {
            assert!(said.contains(word), "{said}");
        }
        let flag = format!("--statedir={}", state.display());
        let rig = Rig::start(directory, &[&flag, "--allow-volatile-statedir"]);
        let (id, target) = rig.in_use("pvc", 32 * MIB, &filesystem("")).await;
        assert!(!rig.volumes().await[0].status.as_ref().unwrap().volume_condition.as_ref().unwrap().abnormal, "as insisted");
        rig.stop().await;

        // As after an upgrade from a driver that did not ask.
        let rig = Rig::start(directory, &[&flag]);
        let listed = rig.volumes().await[0].status.clone().unwrap().volume_condition.unwrap();
        let seen = rig.stats(&id, &text(&target)).await.unwrap().volume_condition.unwrap();
        for condition in [listed, seen] {
            assert!(condition.abnormal && condition.message.contains("tmpfs"), "{condition:?}");
        }
        let another = rig.create("another", 8 * MIB, &filesystem("")).await.unwrap().volume_id;
        rig.delete(&another).await.unwrap();
        rig.put_away(&id, "pvc").await;
        rig.stop().await;
        assert!(refusal(directory, &state).await.contains("tmpfs"), "it is empty again");
        unmount(&state);
    }

    async fn a_directory_that_others_may_write_is_no_place_for_new_volumes(directory: &Path) {
        let state = directory.join("state");
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(refusal(directory, &state).await.contains("1777"));
        fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&state, Some(1000), None).unwrap();
        assert!(refusal(directory, &state).await.contains("user 1000"));
        chown(&state, Some(0), None).unwrap();
        let rig = Rig::start(directory, &[]);
        rig.create("pvc", 8 * MIB, &filesystem("")).await.unwrap();
        rig.stop().await;
    }

    async fn without_a_flag_volumes_live_in_a_directory_of_the_machine(directory: &Path) {
        let lib = directory.join("lib");
        fs::create_dir(&lib).unwrap();
        tool("mount", &["--bind", &text(&lib), "/var/lib"]);
        let args = Command::parse_from(["hostpath", &format!("--endpoint={}", directory.join("csi.sock").display()), "--nodeid=node-1"]).args;
        let rig = Rig::start_with(directory, lib.join("stowage"), args);
        rig.create("pvc", 8 * MIB, &filesystem("")).await.unwrap();
        assert_eq!(rig.files().len(), 2);
        rig.stop().await;
        unmount(Path::new("/var/lib"));
    }
}
