//! Disks over iSCSI, with an initiator that others wrote: libiscsi's tools log in, look, and run their own tests.

use std::process::Output;

use devcluster::testing::libiscsi;
use serde_json::json;

use crate::vpsa::rig::Rig;

struct Scene {
    rig: Rig,
    portal: String,
    target: String,
    user: String,
    secret: String,
}

impl Scene {
    async fn new() -> Self {
        let rig = Rig::with_data().await;
        let server = rig.server("libiscsi", "10.0.0.1").await;
        let disk = rig.volume("disk", "YES", 1).await;
        rig.attach(&server, &disk, json!({})).await;
        let login = rig.login("libiscsi").await;
        let (user, secret) = login.chap.unwrap();
        Self {
            rig,
            portal: login.portal.to_string(),
            target: login.target,
            user,
            secret,
        }
    }

    /// Runs a tool; the secret is in its environment.
    async fn run(&self, tool: &str, secret: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = libiscsi(tool).unwrap();
        command.args(["--initiator-name", "iqn.2026-01.test:libiscsi"]);
        command.args(arguments);
        if let Some(secret) = secret {
            command.env("LIBISCSI_CHAP_USERNAME", &self.user);
            command.env("LIBISCSI_CHAP_PASSWORD", secret);
        }
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        running.await.unwrap()
    }

    fn unit(&self) -> String {
        format!("iscsi://{}/{}/0", self.portal, self.target)
    }
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_the_target_and_its_disk() {
    let scene = Scene::new().await;
    let portal = format!("iscsi://{}", scene.portal);
    let found = scene
        .run("iscsi-ls", Some(&scene.secret), &["--show-luns", &portal])
        .await;
    let text = said(&found);
    assert!(found.status.success(), "{text}");
    assert!(
        text.contains(&format!(
            "Target:{} Portal:{},1",
            scene.target, scene.portal
        )),
        "{text}"
    );
    assert!(
        text.contains("Lun:0") && text.contains("Size:1023M"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_refused_without_the_right_secret() {
    let scene = Scene::new().await;
    let unit = scene.unit();
    let known = scene.run("iscsi-inq", Some(&scene.secret), &[&unit]).await;
    assert!(known.status.success(), "{}", said(&known));
    assert!(said(&known).contains("Vendor:Zadara"), "{}", said(&known));
    for secret in [None, Some("wrong-wrong-wrong")] {
        let refused = scene.run("iscsi-inq", secret, &[&unit]).await;
        assert!(!refused.status.success(), "{}", said(&refused));
        assert!(
            said(&refused).contains("Authentication failure"),
            "{}",
            said(&refused)
        );
    }
    let state = scene.rig.array.control().objects().await.unwrap();
    let (server, volume) = (
        state.servers.keys().next().unwrap().clone(),
        state.volumes.keys().next().unwrap().clone(),
    );
    scene.rig.detach(&server, &volume).await;
    let refused = scene.run("iscsi-inq", Some(&scene.secret), &[&unit]).await;
    assert!(
        said(&refused).contains("Authorization failure"),
        "{}",
        said(&refused)
    );
}

/// Of libiscsi's own tests those of commands that the target has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_own_tests_pass() {
    let scene = Scene::new().await;
    let unit = scene.unit();
    for test in [
        "SCSI.TestUnitReady",
        "SCSI.Read6",
        "SCSI.Read10",
        "SCSI.Read12",
        "SCSI.Read16",
        "SCSI.ReadCapacity10",
        "SCSI.ReadCapacity16",
        "SCSI.Verify10",
        "SCSI.Verify16",
        "SCSI.Write10",
        "SCSI.Write12",
        "SCSI.Write16",
        "SCSI.WriteVerify10",
        "SCSI.WriteVerify16",
        "SCSI.Mandatory",
        "SCSI.Inquiry.Standard",
        "SCSI.Inquiry.AllocLength",
        "SCSI.Inquiry.EVPD",
        "SCSI.Inquiry.SupportedVPD",
        "iSCSI.iSCSIcmdsn",
        "iSCSI.iSCSIResiduals",
    ] {
        let arguments = ["--dataloss", "--test", test, &unit];
        let ran = scene
            .run("iscsi-test-cu", Some(&scene.secret), &arguments)
            .await;
        let text = said(&ran);
        let summary = text
            .lines()
            .find(|line| line.trim().starts_with("tests "))
            .unwrap_or_default();
        // Total, ran, passed, failed, inactive.
        let counts: Vec<&str> = summary.split_whitespace().skip(1).collect();
        assert!(
            counts.len() == 5 && counts[3] == "0" && counts[0] == counts[2],
            "{test}: {text}"
        );
    }
}
