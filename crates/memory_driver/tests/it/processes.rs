use std::path::Path;

use stowage_csi::proto::csi::Volume;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_memory_driver::{DriverProcess, Fault, Mishap};
use tempfile::TempDir;
use tonic::Code;

use crate::scene::{connect, volume};

const PROGRAM: &str = env!("CARGO_BIN_EXE_stowage-memory-driver");

fn start(folder: &TempDir, arguments: &[&str]) -> DriverProcess {
    DriverProcess::start_program(Path::new(PROGRAM), folder.path(), arguments).expect("a driver")
}

async fn create(process: &DriverProcess, name: &str) -> Result<Volume, tonic::Status> {
    let mut controller = ControllerClient::new(connect(&process.endpoint()));
    let answer = controller.create_volume(volume(name)).await?;
    Ok(answer.into_inner().volume.expect("a volume"))
}

#[tokio::test]
async fn kill_9_forgets_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = start(&folder, &[]);
    let before = create(&process, "pvc-1").await.unwrap();
    process.kill();
    assert_eq!(process.look().unwrap().volumes().len(), 1);
    process.start_again().unwrap();
    assert_eq!(create(&process, "pvc-1").await.unwrap(), before);
    assert_eq!(process.look().unwrap().volumes().len(), 1);
}

#[tokio::test]
async fn another_process_sets_faults_and_reads_counts() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(&folder, &[]);
    let down = Mishap::refuse(Code::ResourceExhausted, "no disk left");
    process.upset("CreateVolume", down.once()).unwrap();
    let refused = create(&process, "pvc-1").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "no disk left");
    process.set(Fault::VolumeWithoutId).unwrap();
    assert_eq!(create(&process, "pvc-1").await.unwrap().volume_id, "");
    process.mend().unwrap();
    assert_ne!(create(&process, "pvc-1").await.unwrap().volume_id, "");
    assert_eq!(process.calls("CreateVolume").unwrap(), 3);
}

#[tokio::test]
async fn arguments_shape_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(
        &folder,
        &["--without", "CREATE_DELETE_VOLUME", "--delay=300"],
    );
    let started = std::time::Instant::now();
    let refused = create(&process, "pvc-1").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(started.elapsed().as_millis() >= 300);
}

#[test]
fn a_process_that_cannot_start_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();
    let wrong = &["--without", "EVERYTHING"];
    let ended = DriverProcess::start_program(Path::new(PROGRAM), folder.path(), wrong);
    assert!(ended.is_err());
    assert!(started.elapsed().as_secs() < 10);
}

#[test]
fn any_crate_can_have_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let process = DriverProcess::start(folder.path(), &[]).unwrap();
    assert!(process.look().unwrap().volumes().is_empty());
}

#[test]
fn the_process_ends_with_the_one_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(PROGRAM)
        .args(["--tied", "--endpoint"])
        .arg(folder.path().join("csi.sock"))
        .arg("--state")
        .arg(folder.path())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let control = folder.path().join("control.sock");
    while !control.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(child.try_wait().unwrap(), None);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!folder.path().join("csi.sock").exists());
}
