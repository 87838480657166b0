//! The driver for Weka as a process, with the command lines and variables that the Helm chart of WEKA's plugin gives it.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::testing::{Running, http_get};
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::{GetPluginInfoRequest, ProbeRequest};

use crate::port::Port;

const FLAGS: &str = "--newvolumeprefix=csivol- --newsnapshotprefix=csisnp- --seedsnapshotprefix=csisnp-seed- \
    --allowautofscreation --allowautofsexpansion --grpcrequesttimeoutseconds=30 --healthprobewekatimeoutseconds=5 \
    --concurrency.createVolume=5 --concurrency.createSnapshot=5 --keepthinprovisioningratioonexpand=true \
    --nfsprotocolversion=4.1 --enablemetrics";

/// Under the name that the chart's image calls, with the variables that the chart sets.
fn plugin(directory: &Path, mode: &str, flags: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stowage"));
    command
        .arg0("/wekafsplugin")
        .args(["--v=5", "-drivername=csi.weka.io", "-nodeid=node-1"])
        .arg(format!(
            "--endpoint=unix://{}/csi.sock",
            directory.display()
        ))
        .arg(format!("--csimode={mode}"))
        .args(FLAGS.split_whitespace())
        .args(flags)
        .env_clear()
        .envs([
            ("CSI_DRIVER_NAME", "csi.weka.io"),
            ("CSI_DRIVER_VERSION", "2.8.8"),
            ("CSI_ENDPOINT", "unix:///csi/csi.sock"),
            ("CSI_DYNAMIC_PATH", "csi-volumes"),
            ("X_CSI_MODE", mode),
            ("X_CSI_DEBUG", "false"),
            ("KUBE_NODE_NAME", "node-1"),
            ("KUBE_NODE_IP_ADDRESS", "10.0.0.1"),
            ("POD_NAMESPACE", "csi-wekafs"),
            ("OTEL_DEPLOYMENT_IDENTIFIER", "test"),
        ])
        .stderr(Stdio::piped());
    command
}

/// The answer to a GET, once the port is open.
fn get(port: u16, path: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match http_get(port, path) {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < deadline, "{port}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn identity(directory: &Path) -> IdentityClient<Connection> {
    let endpoint = Endpoint::try_from(directory.join("csi.sock").as_path()).unwrap();
    let options = ClientOptions {
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        metrics: ClientMetrics::default(),
    };
    IdentityClient::new(Connection::new(&endpoint, options))
}

#[tokio::test]
async fn the_controller_of_the_chart_serves_and_answers_its_probe_and_its_scraper() {
    let directory = tempfile::tempdir().unwrap();
    let kept = [Port::keep(), Port::keep()];
    let [health, metrics] = kept.each_ref().map(|port| port.number);
    let mut command = plugin(
        directory.path(),
        "controller",
        &[format!("--metricsport={metrics}")],
    );
    let child = command.env("HEALTH_PORT", health.to_string()).spawn();
    let mut plugin = Running(child.unwrap());
    let lines = BufReader::new(plugin.stderr.take().unwrap()).lines();
    let answers =
        tokio::task::spawn_blocking(move || (get(health, "/healthz"), get(metrics, "/metrics")));
    let (alive, counted) = answers.await.unwrap();
    assert!(alive.starts_with("HTTP/1.1 200"), "{alive}");
    assert!(
        counted.contains("process_resident_memory_bytes"),
        "{counted}"
    );

    let mut identity = identity(directory.path());
    let info = identity
        .get_plugin_info(GetPluginInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.into_inner().name, "csi.weka.io");
    identity.probe(ProbeRequest {}).await.unwrap();

    drop(plugin);
    let warnings: Vec<_> = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("WARN"))
        .collect();
    assert!(
        warnings.is_empty(),
        "each of its flags does something: {warnings:?}"
    );
}

#[tokio::test]
async fn the_node_of_the_chart_serves_and_leaves_the_probe_to_its_sidecar() {
    let directory = tempfile::tempdir().unwrap();
    let kept = [Port::keep(), Port::keep()];
    let [health, metrics] = kept.each_ref().map(|port| port.number);
    let more = [
        format!("--metricsport={metrics}"),
        "--concurrency.nodeUnpublishVolume=5".to_owned(),
        "--managenodetopologylabels=false".to_owned(),
    ];
    let mut command = plugin(directory.path(), "node", &more);
    let child = command.env("HEALTH_PORT", health.to_string()).spawn();
    let _plugin = Running(child.unwrap());
    let counted = tokio::task::spawn_blocking(move || get(metrics, "/metrics"));
    assert!(counted.await.unwrap().contains("HTTP/1.1 200"));
    identity(directory.path())
        .probe(ProbeRequest {})
        .await
        .unwrap();
    // livenessprobe, beside it, has the port.
    assert!(TcpStream::connect(("127.0.0.1", health)).is_err());
}

#[test]
fn what_would_not_be_done_stops_it_with_one_sentence() {
    for (flag, words) in [
        (
            "--tracingurl=jaeger:4317",
            "error: --tracingurl: this driver sends no traces",
        ),
        ("-nfsprotocolversion=2", "error: --nfsprotocolversion"),
        (
            "--debugpath=/tmp/x",
            "error: --debugpath: a local directory",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let metrics = Port::keep();
        let more = [flag.to_owned(), format!("--metricsport={}", metrics.number)];
        let output = plugin(directory.path(), "controller", &more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.to_lowercase().contains(&words.to_lowercase()),
            "{flag}: {text}"
        );
        assert!(!directory.path().join("csi.sock").exists());
    }
}

#[test]
fn its_server_of_figures_is_refused_by_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let output = plugin(directory.path(), "metricsserver", &[]).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    for word in ["metricsserver", "controller, node, all"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn its_help_says_which_flags_do_nothing_and_its_version_is_ours() {
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_stowage"))
            .args(words)
            .env_clear()
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let long = run(&["driver", "weka", "--help"]);
    let (_, foreign) = long
        .split_once("Accepted for manifests of WEKA's plugin:\n")
        .unwrap();
    assert!(
        foreign.contains("--tracingurl") && foreign.contains("--debugpath"),
        "{foreign}"
    );
    assert!(!run(&["driver", "weka", "-h"]).contains("--debugpath"));
    assert!(run(&["driver", "weka", "--version"]).contains(env!("CARGO_PKG_VERSION")));
}
