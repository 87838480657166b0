//! A VPSA and a node.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use devcluster::loops;
use devcluster::testing::{Running, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

const KEY: &str = "SIMULATEDACCESSKEY-1";

/// How many there are.
static SCENES: AtomicU8 = AtomicU8::new(0);

struct Scene {
    directory: TempDir,
    listen: SocketAddr,
    control: SocketAddr,
    /// Where the array has its data, and what it takes the node for.
    address: IpAddr,
    http: reqwest::Client,
}

impl Scene {
    fn new() -> Self {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let number = u16::try_from(std::process::id() % 60_000).unwrap();
        let [high, low] = number.to_be_bytes();
        // Each test has an address of its own: the ports for data are always the same.
        let scene = SCENES.fetch_add(1, Ordering::Relaxed);
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        Self {
            directory: tempfile::tempdir().unwrap(),
            listen: free(),
            control: free(),
            address: Ipv4Addr::new(127, 200 + scene, high, low.max(1)).into(),
            // The array is killed: no connection is kept.
            http: reqwest::Client::builder()
                .pool_max_idle_per_host(0)
                .build()
                .unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(arguments: &[String]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stowage"));
        command.arg("sim").args(arguments).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    fn array(&self) -> Running {
        Self::start(&[
            "vpsa".to_owned(),
            format!("--data={}", self.path("data").display()),
            format!("--listen={}", self.listen),
            format!("--control={}", self.control),
            format!("--address={}", self.address),
            "--plain-http".to_owned(),
        ])
    }

    fn host(&self) -> Running {
        let text = "InitiatorName=iqn.2026-01.test:node\n";
        std::fs::write(self.path("initiator"), text).unwrap();
        let host = Self::start(&[
            "vpsa-host".to_owned(),
            format!("--socket={}", self.path("host.sock").display()),
            format!("--ip={}", self.address),
            format!("--initiator-name={}", self.path("initiator").display()),
            format!("--records={}", self.path("records").display()),
            format!("--by-path={}", self.path("by-path").display()),
            format!("--tools={}", self.path("tools").display()),
            format!("--label={}", loops::label(self.directory.path())),
        ]);
        let socket = self.path("host.sock");
        eventually("the host listens", || UnixStream::connect(&socket).is_ok());
        host
    }

    /// The answer of a call, once the array answers.
    async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let url = format!("http://{}/api/{path}.json", self.listen);
        eventually("the array listens", || {
            TcpStream::connect(self.listen).is_ok()
        });
        let request = self.http.request(method.parse().unwrap(), url);
        let request = request.header("X-Access-Key", KEY).json(&body);
        let mut answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["response"]["status"], 0, "{path}: {answer}");
        answer["response"].take()
    }

    /// A Server record for the node, with these volumes attached; its identity.
    async fn attach(&self, volumes: &[(&str, &str)]) -> String {
        let server =
            json!({"display_name": "node", "iscsi": self.address, "iqn": "iqn.2026-01.test:node"});
        let server = self.call("POST", "servers", server).await;
        let server = server["server_name"].as_str().unwrap().to_owned();
        for (name, block) in volumes {
            let body =
                json!({"name": name, "capacity": 1, "pool": "pool-00010001", "block": block});
            let volume = self.call("POST", "volumes", body).await["vol_name"].take();
            let access = if *block == "NO" { "NFS" } else { "" };
            let attach = json!({"volume_name": volume, "access_type": access});
            let path = format!("servers/{server}/volumes");
            self.call("POST", &path, attach).await;
        }
        server
    }

    /// What the array knows of a Server record, its secrets among it.
    async fn server(&self, name: &str) -> Value {
        let path = format!("servers/{name}");
        self.call("GET", &path, json!({})).await["server"].take()
    }

    /// Logs in as this Server record says; the device of the disk.
    fn log_in(&self, server: &Value) -> PathBuf {
        let discovery = format!("-m discovery -t sendtargets -p {}", self.address);
        let mut lines = vec![discovery];
        for (name, value) in [
            ("authmethod", "CHAP"),
            ("username", server["vpsa_chap_user"].as_str().unwrap()),
            ("password", server["vpsa_chap_secret"].as_str().unwrap()),
        ] {
            lines.push(format!(
                "-m node -o update -n node.session.auth.{name} -v {value}"
            ));
        }
        lines.push("-m node --login".to_owned());
        for line in lines {
            let output = self.tool("iscsiadm", &line);
            assert!(output.status.success(), "{line}: {output:?}");
        }
        let mut disks = std::fs::read_dir(self.path("by-path")).unwrap();
        let disk = disks.next().unwrap().unwrap().path();
        std::fs::canonicalize(disk).unwrap()
    }

    /// Runs one of the tools.
    fn tool(&self, name: &str, line: &str) -> Output {
        let mut command = Command::new(self.path("tools").join(name));
        command.env("STOWAGE_SIM_VPSA_SOCKET", self.path("host.sock"));
        command.args(line.split(' ')).output().unwrap()
    }
}

impl Drop for Scene {
    /// Loop devices belong to the machine: a test that failed must not leave any.
    fn drop(&mut self) {
        let _ = loops::detach_below(self.directory.path());
    }
}

#[tokio::test]
async fn a_node_uses_a_share_and_a_disk_of_an_array_that_is_killed_and_started_again() {
    let scene = Scene::new();
    let array = scene.array();
    let server = scene.attach(&[("share", "NO"), ("disk", "YES")]).await;
    drop(array);
    let _array = scene.array();
    let volumes = scene.call("GET", "volumes", json!({})).await;
    assert_eq!(volumes["volumes"].as_array().unwrap().len(), 2, "{volumes}");

    let host = scene.host();
    let mounted = scene.path("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let line = format!(
        "-t nfs -o rw -- {}:/export/share {}",
        scene.address,
        mounted.display()
    );
    let output = scene.tool("mount", &line);
    assert!(output.status.success(), "{output:?}");
    std::fs::write(mounted.join("file"), "text").unwrap();
    let read = std::fs::read_to_string(mounted.join("file")).unwrap();
    let unmounted = Command::new("umount").arg(&mounted).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(read, "text");

    let discovery = format!("-m discovery -t sendtargets -p {}", scene.address);
    let output = scene.tool("iscsiadm", &discovery);
    assert!(output.status.success(), "{output:?}");
    let output = scene.tool("iscsiadm", "-m node --login");
    assert_eq!(output.status.code(), Some(24), "no secret: {output:?}");
    let server = scene.server(&server).await;
    let in_use = in_use(&scene.log_in(&server));
    assert!(in_use.exists());
    // Killed, it leaves no device behind.
    drop(host);
    eventually("the device is free", || !in_use.exists());
    let _host = scene.host();
    scene.log_in(&server);
}

/// What is there as long as a loop device stands for something.
fn in_use(device: &Path) -> PathBuf {
    let block = Path::new("/sys/block").join(device.file_name().unwrap());
    block.join("loop")
}

/// A loop device on a disk, as the kubelet makes one for a raw disk.
fn loop_on(device: &Path) -> PathBuf {
    let mut losetup = Command::new("losetup");
    let output = losetup.args(["--find", "--show"]).arg(device).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

#[tokio::test]
async fn a_disk_that_the_kubelet_has_open_goes_with_its_host_or_is_swept_after_it_was_killed() {
    let scene = Scene::new();
    let _array = scene.array();
    let server = scene.attach(&[("disk", "YES")]).await;
    let server = scene.server(&server).await;
    let mut host = scene.host();
    let device = scene.log_in(&server);
    let devices = [in_use(&loop_on(&device)), in_use(&device)];
    let asked = Command::new("kill").arg(host.id().to_string()).status();
    assert!(asked.unwrap().success());
    assert!(host.wait().unwrap().success());
    for device in &devices {
        eventually("the device is free", || !device.exists());
    }

    let host = scene.host();
    let device = scene.log_in(&server);
    let devices = [in_use(&loop_on(&device)), in_use(&device)];
    let place = scene.directory.path();
    loops::detach_dead(place).unwrap();
    drop(host);
    // What its file was called tells whose a device is when nobody knows any more what it was.
    loops::detach_dead(tempfile::tempdir().unwrap().path()).unwrap();
    assert!(devices.iter().all(|device| device.exists()));
    loops::detach_dead(place).unwrap();
    for device in &devices {
        eventually("the device is free", || !device.exists());
    }

    let host = scene.host();
    let device = scene.log_in(&server);
    let devices = [in_use(&loop_on(&device)), in_use(&device)];
    loops::detach_below(place).unwrap();
    drop(host);
    for device in &devices {
        eventually("the device is free", || !device.exists());
    }
}

#[test]
fn the_stand_in_for_mount_leaves_all_but_shares_to_the_machines() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("mount");
    symlink(env!("CARGO_BIN_EXE_stowage"), &program).unwrap();
    let output = Command::new(&program).arg("--version").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("util-linux"), "{output:?}");
}

#[test]
fn tools_say_that_no_host_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("host.sock");
    for (tool, line, code, says) in [
        (
            "mount.nfs",
            "1.2.3.4:/export/x /mnt",
            32,
            "no simulated host listens on",
        ),
        (
            "iscsiadm",
            "-m session",
            20,
            "can not connect to iSCSI daemon",
        ),
    ] {
        let program = directory.path().join(tool);
        symlink(env!("CARGO_BIN_EXE_stowage"), &program).unwrap();
        let mut command = Command::new(program);
        command.env("STOWAGE_SIM_VPSA_SOCKET", &socket);
        let output = command.args(line.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(says), "{text}");
    }
}
