//! A mount that does not end and that nobody can kill: the kernel waits for a Weka client that does not answer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use devcluster::isolated;
use tonic::Code;

use crate::cluster::Cluster;
use crate::rig::{GIB, Rig, eventually};

/// Twice this is how long a mount may take before it is killed.
const CALL_TIME: &str = "--grpcrequesttimeoutseconds=3";

isolated! {
    async fn a_mount_that_cannot_be_killed_keeps_its_turn_and_is_reported(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let control = cluster.array.control();
        let uid = control.filesystem_uid("default").await.unwrap().unwrap();
        control.hang(&uid, true).await.unwrap();
        let rig = Rig::start(directory, &cluster, &[CALL_TIME, "--skipgarbagecollection"]);
        let begun = Instant::now();
        // Before it is killed, it is waited for; afterwards it is not.
        let mut stuck = 0;
        while stuck < 10 {
            let error = rig.create("volume", GIB, &[]).await.unwrap_err();
            assert!(helpers(directory) <= 1, "after {:?}: {error}", begun.elapsed());
            if error.code() == Code::Unavailable {
                for part in ["`default`", "has not ended for", "no second attempt", "weka local ps"] {
                    assert!(error.message().contains(part), "{part}: {error}");
                }
                stuck += 1;
            } else {
                assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
                assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(helpers(directory), 1, "nobody could kill it");
        let error = rig.create("volume", GIB, &[]).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "nobody waits for it: {error}");
        eventually("the driver says that it is not ready", || {
            let report = rig.health.report();
            !report.is_ready() && report.verbose().contains("mounting filesystem `default`")
        }).await;
        control.hang(&uid, false).await.unwrap();
        eventually("the mount ends", || helpers(directory) == 0).await;
        eventually("the driver is ready", || rig.health.report().is_ready()).await;
        rig.create("volume", GIB, &[]).await.unwrap();
        assert_eq!(cluster.volumes().len(), 1);
        rig.stop().await;
    }
}

/// How many mount helpers of this test are running, by their threads: the first one ends when it is killed.
fn helpers(directory: &Path) -> usize {
    let directory = directory.to_str().unwrap();
    let has = |thread: &Path, name: &str, text: &str| {
        let read = std::fs::read(thread.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&read).contains(text)
    };
    let is_helper = |thread: &PathBuf| {
        has(thread, "cmdline", "helper::mount_helper") && has(thread, "environ", directory)
    };
    let processes = entries(Path::new("/proc"));
    processes
        .filter(|process| entries(&process.join("task")).any(|thread| is_helper(&thread)))
        .count()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}
