//! What the operator is told about mounts.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, iter};

use devcluster::isolated;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::node::driver::TestDriver;
use crate::node::kubelet::Node;

/// `printf key | sha256sum`
const HASH: &str = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683";
/// Where volumes of pods are, below the kubelet's folder.
const OF_POD: &str = "pods/u1/volumes/kubernetes.io~csi";

/// Asks with a key; the number of the answer, and its text.
async fn ask(port: u16, key: &str) -> (u16, String) {
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let head = [
        "GET /mounts HTTP/1.1",
        "Host: x",
        "Connection: close",
        &format!("Authorization: Bearer {key}"),
    ];
    let request = head.join("\r\n") + "\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// Mounts a volume of a driver as a kubelet would have it mounted, with its note.
fn mount(root: &Path, volume: &str, driver: &str) {
    let place = root.join(OF_POD).join(volume);
    fs::create_dir_all(place.join("mount")).unwrap();
    let note = json!({"driverName": driver, "specVolID": volume, "volumeHandle": "h"});
    fs::write(place.join("vol_data.json"), note.to_string()).unwrap();
    run("mount", &["-t", "tmpfs", "none"], &place.join("mount"));
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status();
    assert!(
        status.unwrap().success(),
        "{program} {args:?} {}",
        path.display()
    );
}

isolated! {
    async fn the_operator_and_nobody_else_is_told_what_is_mounted(directory: &Path) {
        let node = Node::new();
        let _driver = TestDriver::named("x.csi").start(&node.driver);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let sidecar = node.start(&[
            &format!("--mounts-port={port}"),
            &format!("--mounts-key-sha256={HASH}"),
            &format!("--kubelet-root={}", directory.display()),
        ]);
        let nothing = json!({"driver": "x.csi", "mounts": []});
        let told = async || {
            let (code, body) = ask(port, "key").await;
            assert_eq!(code, 200, "{body}");
            serde_json::from_str::<Value>(&body).unwrap()
        };
        assert_eq!(told().await, nothing);
        mount(directory, "ours", "x.csi");
        mount(directory, "theirs", "y.csi");
        let path = format!("{OF_POD}/ours/mount");
        let mounts = json!([{"path": path, "pod": "u1", "volume": "ours"}]);
        assert_eq!(told().await, json!({"driver": "x.csi", "mounts": mounts}));
        for wrong in ["", "Key", HASH] {
            let (code, body) = ask(port, wrong).await;
            assert!(code == 401 && !body.contains("ours"), "{code} {body}");
        }
        for volume in ["ours", "theirs"] {
            run("umount", &[], &directory.join(OF_POD).join(volume).join("mount"));
        }
        assert_eq!(told().await, nothing);
        sidecar.stop().await;
    }

    async fn a_taken_port_keeps_no_driver_from_its_kubelet(directory: &Path) {
        let node = Node::new();
        let _driver = TestDriver::named("x.csi").start(&node.driver);
        let taken: Vec<_> = ["0.0.0.0:0", "[::]:0"].iter().map(|it| TcpListener::bind(it).unwrap()).collect();
        let ports = taken.iter().map(|it| it.local_addr().unwrap().port());
        for port in ports.chain(iter::once(0)) {
            let root = format!("--kubelet-root={}", directory.display());
            let sidecar = node.start(&[&format!("--mounts-port={port}"), &format!("--mounts-key-sha256={HASH}"), &root]);
            let mut kubelet = node.kubelet("x.csi").await;
            assert_eq!(kubelet.asks().await.name, "x.csi");
            sidecar.stop().await;
        }
    }
}
