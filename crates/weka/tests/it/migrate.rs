//! `stowage migrate weka-legacy`: volumes from before there were quotas get one, whatever happens meanwhile.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use devcluster::isolated;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_sim::weka::control::Trouble;
use stowage_sim::weka::state::access::Role;
use stowage_weka::migrate::{MigrateArgs, migrate};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, client};
use crate::crash::{HELD, held, kill};
use crate::helper::{self, Moment};
use crate::rig::{GIB, Map, Rig, eventually};

/// What a test tells the migration that it wants as a process: arguments, then variables.
const ARGUMENTS: &str = "STOWAGE_TEST_MIGRATION";

const CAPACITY: &str = "user.weka_capacity";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    args: MigrateArgs,
}

/// Not a test: the migration itself, when a test starts this program again to kill it.
#[test]
fn migration_process() {
    let Ok(text) = std::env::var(ARGUMENTS) else {
        return;
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    stowage_service::client::install_crypto_provider();
    let args = Arguments::parse_from(text.lines()).args;
    let environment = |name: &str| std::env::var(name).ok();
    let stop = CancellationToken::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let done = migrate(&args, &environment, &|line| println!("{line}"), &stop);
    runtime.block_on(done).unwrap();
}

fn arguments(directory: &Path, more: &[&str]) -> Vec<String> {
    let mut words = vec!["migrate".to_owned()];
    words.extend(more.iter().map(|word| (*word).to_owned()));
    for (flag, name) in [
        ("--mount-base", "migration"),
        ("--proc-modules", "modules"),
        ("--proc-wekafs-interface", "interface"),
    ] {
        if !more.iter().any(|word| word.starts_with(flag)) {
            words.push(format!("{flag}={}", directory.join(name).display()));
        }
    }
    words
}

/// The variables that stand for a secret.
fn variables(secret: &Map) -> Map {
    let names = [
        ("username", "WEKA_USERNAME"),
        ("password", "WEKA_PASSWORD"),
        ("organization", "WEKA_ORG"),
        ("endpoints", "WEKA_ENDPOINTS"),
        ("scheme", "WEKA_SCHEME"),
    ];
    let given = |(key, name): (&str, &str)| Some((name.to_owned(), secret.get(key)?.clone()));
    names.into_iter().filter_map(given).collect()
}

/// How a run ended, and what it printed, without times.
#[derive(Debug)]
struct Run {
    outcome: Result<bool, String>,
    lines: Vec<String>,
}

impl Run {
    #[track_caller]
    fn says(&self, words: &[&str]) {
        let all = format!("{:?}\n{}", self.outcome, self.lines.join("\n"));
        for word in words {
            assert!(all.contains(word), "{word}: {all}");
        }
    }
}

async fn run_until(directory: &Path, secret: &Map, more: &[&str], stop: &CancellationToken) -> Run {
    run_heard(directory, secret, more, stop, &|_| {}).await
}

/// The same while somebody reads each line as it comes.
async fn run_heard(
    directory: &Path,
    secret: &Map,
    more: &[&str],
    stop: &CancellationToken,
    hear: &dyn Fn(&str),
) -> Run {
    let args = Arguments::parse_from(arguments(directory, more)).args;
    let variables = variables(secret);
    let lines = RefCell::new(Vec::new());
    let print = |line: String| {
        let text = line.split_once("] ").map_or(&*line, |(_, text)| text);
        hear(text);
        lines.borrow_mut().push(text.to_owned());
    };
    let environment = |name: &str| variables.get(name).cloned();
    let outcome = migrate(&args, &environment, &print, stop).await;
    let outcome = outcome.map_err(|error| error.to_string());
    let run = Run {
        outcome,
        lines: lines.into_inner(),
    };
    println!("{run:#?}");
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let base = directory.join("migration");
    assert!(!table.contains(base.to_str().unwrap()), "mounted: {table}");
    run
}

async fn run(directory: &Path, cluster: &Cluster, more: &[&str]) -> Run {
    let stop = CancellationToken::new();
    run_until(directory, &cluster.secret(), more, &stop).await
}

/// A volume as drivers made them before there were quotas.
fn old_volume(cluster: &Cluster, name: &str, capacity: &str) -> PathBuf {
    let path = cluster.files.join("csi-volumes").join(name);
    std::fs::create_dir_all(&path).unwrap();
    setxattr(&path, CAPACITY, capacity.as_bytes(), XattrFlags::empty()).unwrap();
    path
}

fn attribute(path: &Path) -> Option<String> {
    let mut buffer = [0_u8; 64];
    let length = getxattr(path, CAPACITY, &mut buffer[..]).ok()?;
    Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
}

/// How many quotas the array has.
async fn quotas(cluster: &Cluster) -> usize {
    let uid = cluster.filesystem("default").await["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let all = cluster
        .call("GET", &format!("fileSystems/{uid}/quota"), None)
        .await;
    all.as_array().unwrap().len()
}

/// Writes to a volume all the time.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Writer {
    fn start(place: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                count += 1;
                std::fs::write(
                    place.join(format!("file-{}", count % 10)),
                    count.to_string(),
                )
                .unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
            count
        });
        Self { stop, thread }
    }

    fn written(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

isolated! {
    async fn volumes_of_an_old_release_get_their_quotas_while_a_pod_writes(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.release = Some("3.12".parse().unwrap())).await;
        let rig = Rig::start(directory, &cluster, &["--release-refresh-seconds=1"]);
        let through_api = rig.create("through-api", 2 * GIB, &[]).await.unwrap().volume_id;
        Rig::of_process(directory, &cluster).legacy().create("without-api", GIB, &[]).await.unwrap();
        let [first, second] = <[String; 2]>::try_from(cluster.volumes()).unwrap();
        let (api, plain) = if first.starts_with("through-api") { (first, second) } else { (second, first) };
        let place = |name: &str| cluster.files.join("csi-volumes").join(name);
        let target = rig.publish(&through_api, "pod", Mode::MultiNodeMultiWriter).await.unwrap();
        let writer = Writer::start(target);
        let early = run(directory, &cluster, &["default"]).await;
        assert!(early.outcome.is_err());
        early.says(&["release 3.12", "3.13 or later", "upgrade"]);
        cluster.array.control().upgrade("5.1").await.unwrap();

        // A dry run changes nothing.
        let control = cluster.array.control();
        control.take_requests().await.unwrap();
        let dry = run(directory, &cluster, &["default", "--dry-run"]).await;
        assert_eq!(dry.outcome, Ok(true));
        dry.says(&[
            &format!("INFO       Would create quota of 1073741824 bytes for directory {plain}"),
            "NOTICE     Dry run complete: nothing was changed", "2 directories would be migrated", "0 directories would be skipped",
        ]);
        let changing = control.take_requests().await.unwrap();
        assert!(changing.iter().all(|it| it.method != "PUT"), "{changing:?}");
        assert_eq!(attribute(&place(&plain)).unwrap(), GIB.to_string());
        assert_eq!(quotas(&cluster).await, 0);

        // The array cannot count what the pod has written: that volume stays as it was, and the run says so.
        let refused = run(directory, &cluster, &["default"]).await;
        assert_eq!(refused.outcome, Ok(false));
        refused.says(&[
            &format!("ERROR      Directory {api} was not migrated: "), "DATASERV", "weka fs quota set",
            "Migration process is not complete", "1 directories migrated successfully", &format!("1 directories failed: {api}"),
        ]);
        assert!(attribute(&place(&api)).is_some());
        assert_eq!(attribute(&place(&plain)), None);
        assert_eq!(cluster.quota(&format!("csi-volumes/{plain}")).await, (GIB, GIB));

        cluster.array.control().add_data_services().await.unwrap();
        let whole = run(directory, &cluster, &["default"]).await;
        assert_eq!(whole.outcome, Ok(true));
        assert_eq!(whole.lines[1..], [
            "NOTICE     Initializing volume migration for filesystem default".to_owned(),
            "NOTICE     Successfully mounted filesystem default".to_owned(),
            "NOTICE     Starting Persistent Volume migration".to_owned(),
            format!("INFO       Processing directory '{api}'"),
            format!("INFO       Creating quota of 2147483648 bytes for directory {api}"),
            format!("INFO       Quota was successfully set for directory {api}"),
            format!("INFO       Processing directory '{plain}'"),
            "NOTICE     Migration process complete!".to_owned(),
            "NOTICE     1 directories migrated successfully".to_owned(),
            "NOTICE     1 directories skipped".to_owned(),
        ]);
        assert_eq!(cluster.quota(&format!("csi-volumes/{api}")).await, (2 * GIB, 2 * GIB));

        // Again, with a volume that was made since: it has its quota if the driver had noticed the upgrade by then.
        let mut calls = 0;
        loop {
            let later = rig.create("later", GIB, &[]).await.unwrap().volume_id;
            if quotas(&cluster).await == 3 {
                break;
            }
            assert!(calls < 100, "the driver never noticed the upgrade");
            rig.delete(&later).await.unwrap();
            calls += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let again = run(directory, &cluster, &["default"]).await;
        assert_eq!(again.outcome, Ok(true));
        again.says(&["0 directories migrated successfully", "3 directories skipped"]);
        assert!(writer.written() > 10, "it wrote all the time");
        rig.unpublish(&through_api, "pod").await.unwrap();
        rig.expand(&through_api, 3 * GIB).await.unwrap();
        rig.stop().await;
    }

    async fn a_migration_killed_at_any_step_is_finished_by_the_next(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        for (number, step) in steps().into_iter().enumerate() {
            let name = format!("volume-{number}");
            let path = old_volume(&cluster, &name, &GIB.to_string());
            match &step {
                Kill::Call(method, path, trouble) => cluster.fault(method, path, 1, trouble.clone()).await,
                Kill::Mount(moment) => helper::hold(directory, *moment),
            }
            let child = start(directory, &cluster);
            match &step {
                Kill::Call(_, path, _) => {
                    held(&cluster, path).await;
                    kill(child);
                    cluster.array.control().clear_faults().await.unwrap();
                }
                Kill::Mount(moment) => {
                    eventually("the mount", || helper::is_held(directory)).await;
                    kill(child);
                    helper::kill(directory, *moment);
                }
            }
            // The quota comes before the attribute goes: at no step is the size lost.
            assert_eq!(attribute(&path).unwrap(), GIB.to_string(), "{step:?}");
            let next = run(directory, &cluster, &["default"]).await;
            assert_eq!(next.outcome, Ok(true), "{step:?}");
            next.says(&["1 directories migrated successfully", &format!("{number} directories skipped")]);
            assert_eq!(attribute(&path), None, "{step:?}");
            assert_eq!(cluster.quota(&format!("csi-volumes/{name}")).await, (GIB, GIB), "{step:?}");
        }
    }

    async fn what_cannot_be_right_is_told_with_its_remedy_and_leaves_nothing(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let path = old_volume(&cluster, "volume", &GIB.to_string());
        cluster.array.control().add_user(0, "reader", "reader", Role::ReadOnly).await.unwrap();
        let with = |more: &[(&str, &str)]| cluster.secret_with(more);
        let without = |key: &str| { let mut secret = cluster.secret(); secret.remove(key); secret };
        for (secret, arguments, words) in [
            (with(&[]), vec!["nowhere"], vec!["filesystem `nowhere` does not exist", "weka fs"]),
            (with(&[]), vec!["a/b"], vec!["`a/b` is not the name of a filesystem"]),
            (with(&[]), vec!["default", "--csi-volumes-dir=other"], vec!["directory `/other` does not exist", "--csi-volumes-dir"]),
            (with(&[]), vec!["default", "--csi-volumes-dir=../x"], vec!["--csi-volumes-dir `../x`", "without `..`"]),
            (with(&[("password", "wrong")]), vec!["default"], vec!["login", "`password`"]),
            (without("password"), vec!["default"], vec!["`password`", "WEKA_PASSWORD", "--secret-file"]),
            (without("endpoints"), vec!["default"], vec!["WEKA_ENDPOINTS", "--endpoint-address"]),
            (with(&[("endpoints", "127.0.0.1:1")]), vec!["default"], vec!["no endpoint of the Weka cluster answers"]),
            (with(&[("username", "reader"), ("password", "reader")]), vec!["default"], vec!["role ReadOnly", "ClusterAdmin"]),
            (with(&[]), vec!["default", "--secret-file=/nowhere"], vec!["--secret-file"]),
        ] {
            let stop = CancellationToken::new();
            let refused = run_until(directory, &secret, &arguments, &stop).await;
            assert!(refused.outcome.is_err(), "{arguments:?}");
            refused.says(&words);
        }
        // Two at once would unmount each other's filesystem.
        let lock = std::fs::File::open(directory.join("migration.lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        run(directory, &cluster, &["default"]).await.says(&["another migration", "--mount-base"]);
        drop(lock);
        assert_eq!((attribute(&path), quotas(&cluster).await), (Some(GIB.to_string()), 0));
        // The files of the filesystem cannot be written.
        let read_only = |flag: &str| {
            let options = format!("remount,bind,{flag}");
            let done = Command::new("mount").args(["-o", &options]).arg(migration_mount(directory)).status();
            assert!(done.unwrap().success());
        };
        let child = hold_at(directory, &cluster, "fileSystems/*/quota/*").await;
        read_only("ro");
        kill(child);
        cluster.array.control().clear_faults().await.unwrap();
        let refused = run(directory, &cluster, &["default"]).await;
        refused.says(&["mounted read-only below", "run the command again"]);
        assert_eq!((attribute(&path), quotas(&cluster).await), (Some(GIB.to_string()), 0));
        // It was unmounted, so the next one mounts it anew.
        assert_eq!(run(directory, &cluster, &["default"]).await.outcome, Ok(true));
    }

    async fn what_is_not_an_old_volume_is_told_and_left_alone(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.array.control().add_data_services().await.unwrap();
        let strange = old_volume(&cluster, "strange", "much");
        let full = old_volume(&cluster, "full", "4096");
        std::fs::write(full.join("file"), vec![0; 8192]).unwrap();
        let volumes = cluster.files.join("csi-volumes");
        std::fs::create_dir(volumes.join("foreign")).unwrap();
        std::fs::create_dir(volumes.join(".hidden")).unwrap();
        std::fs::write(volumes.join("file"), "").unwrap();
        std::os::unix::fs::symlink("/etc", volumes.join("link")).unwrap();
        let done = run(directory, &cluster, &["default", "--debug"]).await;
        assert_eq!(done.outcome, Ok(false));
        done.says(&[
            "WARNING    Directory full holds 8192 bytes, more than its capacity of 4096",
            "ERROR      Directory foreign was not migrated: it has neither", "ERROR      Directory strange was not migrated: its attribute",
            "(`much`)", "WARNING    'file' is not a directory", "WARNING    'link' is not a directory",
            "1 directories migrated successfully", "3 warnings", "2 directories failed: foreign, strange", "DEBUG      Directory full: inode",
        ]);
        assert!(done.lines.iter().all(|line| !line.contains("hidden")));
        assert_eq!(attribute(&strange).unwrap(), "much");
        assert_eq!(attribute(&full), None);
    }

    async fn a_cluster_that_takes_its_time_is_waited_for_and_a_signal_ends_that(directory: &Path) {
        let cluster = Cluster::start(directory, |options| options.quota_delay = Duration::from_secs(3600)).await;
        let control = cluster.array.control();
        let path = old_volume(&cluster, "volume", &GIB.to_string());
        let impatient = run(directory, &cluster, &["default", "--quota-timeout=300ms"]).await;
        assert_eq!(impatient.outcome, Ok(false));
        impatient.says(&["Directory volume was not migrated", "run the migration again"]);
        assert!(attribute(&path).is_some());
        let stop = CancellationToken::new();
        let signal = async {
            cluster.looked_for_quotas(2).await;
            stop.cancel();
        };
        let secret = cluster.secret();
        let (stopped, ()) = tokio::join!(run_until(directory, &secret, &["default"], &stop), signal);
        assert_eq!(stopped.outcome, Ok(false));
        stopped.says(&["WARNING    Migration process was interrupted: run it again", "0 directories migrated successfully"]);
        assert!(attribute(&path).is_some());
        let other = old_volume(&cluster, "volume-2", &GIB.to_string());
        control.finish().await.unwrap();
        let said = Notify::new();
        let hear = |line: &str| if line.starts_with("INFO       Still waiting for the quota of directory volume-2 (") { said.notify_one() };
        let finish = async {
            said.notified().await;
            control.finish().await.unwrap();
        };
        let stop = CancellationToken::new();
        let patient = run_heard(directory, &secret, &["default", "--progress-interval=300ms"], &stop, &hear);
        let (patient, ()) = tokio::join!(patient, finish);
        assert_eq!(patient.outcome, Ok(true));
        patient.says(&["2 directories migrated successfully"]);
        assert_eq!((attribute(&path), attribute(&other)), (None, None));
    }

    async fn a_stateless_client_mounts_through_a_backend_and_another_cluster_is_found_out(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let path = old_volume(&cluster, "volume", &GIB.to_string());
        let elsewhere = directory.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let other = Cluster::start_array(&elsewhere, |_| {}).await;
        let nobody = ["--proc-modules=/nowhere", "--proc-wekafs-interface=/nowhere"];
        let no_client = run(directory, &cluster, &[&["default"][..], &nobody].concat()).await;
        assert!(no_client.outcome.is_err());
        no_client.says(&["Weka client", "--endpoint-address"]);
        // The simulator mounts what its only client is of, whatever the address.
        let address = other.endpoints()[0].clone();
        let wrong = crate::cluster::secret_of(&other, &[]);
        let through = format!("--endpoint-address={address}");
        let stop = CancellationToken::new();
        let refused = run_until(directory, &wrong, &["default", &through], &stop).await;
        assert!(refused.outcome.is_err());
        refused.says(&["mount token is not valid"]);
        // A mount that shows what the cluster does not have.
        cluster.fault("GET", "fileSystems/*/resolvePath", 1, Trouble::Refuse(404)).await;
        let refused = run(directory, &cluster, &["default"]).await;
        assert!(refused.outcome.is_err());
        refused.says(&["does not belong to Weka cluster"]);
        assert!(attribute(&path).is_some());
        let through = format!("--endpoint-address={}", cluster.array.endpoints()[0]);
        let mut secret = cluster.secret();
        secret.remove("endpoints");
        let arguments = [&["default", &*through][..], &nobody].concat();
        let done = run_until(directory, &secret, &arguments, &stop).await;
        assert_eq!(done.outcome, Ok(true));
        assert_eq!(attribute(&path), None);
        // A filesystem that requires authentication, through one of two clients.
        let _client = client(directory, &other, "other").await;
        cluster.add_filesystem("guarded", &json!({ "auth_required": true })).await;
        let uid = cluster.filesystem("guarded").await["uid"].as_str().unwrap().to_owned();
        let guarded = directory.join("array/filesystems").join(uid).join("root/volumes/volume");
        std::fs::create_dir_all(&guarded).unwrap();
        setxattr(&guarded, CAPACITY, b"4096", XattrFlags::empty()).unwrap();
        let done = run(directory, &cluster, &["guarded", "--csi-volumes-dir=/volumes/"]).await;
        assert_eq!(done.outcome, Ok(true));
        assert_eq!(cluster.quota_on("guarded", "volumes/volume").await, (4096, 4096));
    }
}

/// Where a migration can be killed.
#[derive(Debug, Clone)]
enum Kill {
    /// In a call to the array.
    Call(&'static str, &'static str, Trouble),
    /// In the mount.
    Mount(Moment),
}

fn steps() -> Vec<Kill> {
    let mut steps = vec![Kill::Mount(Moment::Before), Kill::Mount(Moment::After)];
    for (method, path) in [
        ("POST", "login"),
        ("GET", "fileSystems"),
        ("GET", "fileSystems/*/mountToken"),
        ("GET", "fileSystems/*/resolvePath"),
        ("GET", "fileSystems/*/quota/*"),
        ("PUT", "fileSystems/*/quota/*"),
    ] {
        steps.push(Kill::Call(method, path, Trouble::Delay(HELD)));
        steps.push(Kill::Call(method, path, Trouble::DoneButDelayed(HELD)));
    }
    steps
}

/// A migration that has mounted the filesystem and waits for the answer to this question.
async fn hold_at(directory: &Path, cluster: &Cluster, path: &str) -> std::process::Child {
    cluster.fault("GET", path, 1, Trouble::Delay(HELD)).await;
    let child = start(directory, cluster);
    held(cluster, path).await;
    child
}

fn start(directory: &Path, cluster: &Cluster) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "migrate::migration_process", "--nocapture"])
        .env(ARGUMENTS, arguments(directory, &["default"]).join("\n"))
        .envs(variables(&cluster.secret()))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// What a migration has mounted.
fn migration_mount(directory: &Path) -> PathBuf {
    let base = directory.join("migration");
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut points = table
        .lines()
        .map(|line| PathBuf::from(line.split(' ').nth(4).unwrap()));
    points.find(|point| point.starts_with(&base)).unwrap()
}
