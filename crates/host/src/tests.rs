//! What holds for the whole module.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mount::*;
use super::*;

/// A gRPC handler must be able to await all of them.
#[test]
fn all_futures_can_move_between_threads() {
    fn is_send(_: impl Send) {}
    let (exec, mounter, stats) = (exec::HostExec, FakeMounter::new(), stat::Stats::default());
    let (device, kind) = (Path::new("/dev/x"), filesystem::FsKind::Xfs);
    let path = PathBuf::from("/no/such/path");
    let bind = Bind {
        source: BindSource::Path(path.clone()),
        target: path.clone(),
        read_only: false,
    };
    let mount = FsMount {
        kind: kind.name().to_owned(),
        source: device.into(),
        target: path,
        options: Vec::new(),
        timeout: Duration::from_secs(1),
    };
    is_send(ensure_bind(&mounter, &bind));
    is_send(ensure_mounted(&mounter, &mount));
    is_send(ensure_unmounted(&mounter, device, Unmount::Normal));
    is_send(remove_mount_point(device));
    is_send(filesystem::ensure_formatted(
        &exec,
        &stats,
        device,
        kind,
        &[],
    ));
    is_send(filesystem::check(&exec, device, kind));
    is_send(filesystem::grow(&exec, &stats, device, kind, device));
    is_send(filesystem::grow_unmounted(&exec, &stats, device, kind));
    is_send(filesystem::renew_identity(
        &exec, &mounter, device, kind, device,
    ));
    is_send(stats.usage(device));
    is_send(stats.health(device));
    let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    is_send(copy::copy_file(from, to, |_| ()));
    is_send(blocking(|| ()));
}

#[tokio::test]
#[should_panic(expected = "on purpose")]
async fn a_panic_in_blocking_work_is_the_callers() {
    blocking(|| panic!("on purpose")).await;
}
