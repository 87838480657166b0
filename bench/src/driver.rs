//! `./x bench driver`: the embedded driver's RPCs with 1 and 16 clients, and with ever more volumes in its state
//! directory. A call must not cost more because there are many volumes.

use std::path::{Path, PathBuf};

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    DeleteVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};

use crate::csi::{self, Controller, Node, capability};
use crate::latency::Latency;
use crate::process::Process;
use crate::{ceiling, say};

const SIZE: i64 = 16 << 20;
/// Our own part of a call should stay below this, in seconds; a bucket of the driver's histogram.
const OVERHEAD_GOAL: f64 = 0.005;

/// The embedded driver: create, publish, unpublish, delete
#[derive(clap::Args)]
pub struct Args {
    /// How many volumes exist before each round
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "10,1000,10000"
    )]
    existing: Vec<usize>,
    /// How many calls at the same time
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "1,16"
    )]
    clients: Vec<usize>,
    /// Calls of each kind in a round
    #[arg(long, value_name = "N", default_value_t = 200)]
    calls: usize,
    /// Directory to work in; its disk is what is measured
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    directory: PathBuf,
}

/// Measures, and prints what is found.
pub async fn run(stowage: &Path, args: &Args) -> anyhow::Result<()> {
    let scratch = tempfile::Builder::new()
        .prefix("stowage-bench-")
        .tempdir_in(&args.directory)?;
    let socket = scratch.path().join("csi.sock");
    let arguments = [
        "driver".to_owned(),
        "hostpath".to_owned(),
        format!("--endpoint={}", socket.display()),
        format!("--statedir={}", scratch.path().join("state").display()),
        "--nodeid=bench".to_owned(),
    ];
    let mut process = Process::start_in_own_mounts(stowage, &arguments).await?;
    process.wait_for_file(&socket).await?;
    say(&format!("idle: {}", process.memory()?));
    let bench = Bench::connect(&socket, scratch.path(), &process)?;
    let mut existing = 0;
    say("existing clients call           per s     p50 ms     p99 ms");
    for wanted in &args.existing {
        bench.fill(existing..*wanted).await?;
        existing = existing.max(*wanted);
        for clients in &args.clients {
            bench.round(existing, *clients, args.calls).await?;
        }
    }
    say(&format!("with {existing} volumes: {}", process.memory()?));
    for method in [
        "CreateVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "DeleteVolume",
    ] {
        let (within, all) = process.overhead_within(method, OVERHEAD_GOAL).await?;
        say(&format!(
            "{method}: our own part was at most {} ms in {within} of {all} calls ({:.2} %)",
            OVERHEAD_GOAL * 1000.0,
            100.0 * within / all.max(1.0)
        ));
    }
    Ok(())
}

struct Bench<'a> {
    controller: Controller,
    node: Node,
    directory: &'a Path,
    process: &'a Process,
}

impl<'a> Bench<'a> {
    fn connect(socket: &Path, directory: &'a Path, process: &'a Process) -> anyhow::Result<Self> {
        let (controller, node) = csi::connect(socket)?;
        Ok(Self {
            controller,
            node,
            directory,
            process,
        })
    }

    /// Volumes that are only there.
    async fn fill(&self, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
        let create = |number| async move { self.create(format!("old-{number}")).await.map(drop) };
        Latency::measure(numbers, 16, create).await.map(drop)
    }

    async fn round(&self, existing: usize, clients: usize, calls: usize) -> anyhow::Result<()> {
        let show = |call: &str, latency: &Latency| {
            say(&format!(
                "{existing:>8} {clients:>7} {call:<12} {:>8.0} {:>10.2} {:>10.2}",
                latency.per_second(),
                latency.percentile(50),
                latency.percentile(99),
            ));
        };
        let bare = tempfile::tempdir_in(self.directory)?;
        let floor = ceiling::create(bare.path(), calls, clients, SIZE.unsigned_abs()).await?;
        show("bare create", &floor);

        let names: Vec<String> = (0..calls)
            .map(|number| format!("new-{clients}-{number}"))
            .collect();
        let before = self.process.cpu()?;
        let created = Latency::measure(&names, clients, |name| async {
            self.create(name.clone()).await.map(drop)
        });
        let created = created.await?;
        let cpu = self.process.cpu()?.saturating_sub(before).as_secs_f64() * 1000.0;
        show("create", &created);
        let each = cpu / f64::from(u32::try_from(calls)?);
        say(&format!(
            "{:>16} create is {:.2} of the bare rate, {each:.2} ms of processor time each",
            "",
            created.per_second() / floor.per_second()
        ));
        // The same call again gives the id, and is cheap.
        let mut ids = Vec::new();
        for name in &names {
            ids.push(self.create(name.clone()).await?);
        }
        show(
            "publish",
            &Latency::measure(&ids, clients, |id| self.publish(id)).await?,
        );
        show(
            "unpublish",
            &Latency::measure(&ids, clients, |id| self.unpublish(id)).await?,
        );
        show(
            "delete",
            &Latency::measure(&ids, clients, |id| self.delete(id)).await?,
        );
        Ok(())
    }

    async fn create(&self, name: String) -> anyhow::Result<String> {
        let request = csi::volume(&name, SIZE, Mode::SingleNodeWriter);
        csi::create(&self.controller, request).await
    }

    async fn delete(&self, id: &str) -> anyhow::Result<()> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..DeleteVolumeRequest::default()
        };
        csi::delete(&self.controller, request).await
    }

    /// Stage and publish, as the kubelet does: a filesystem is made and mounted, and bound to the pod's place.
    async fn publish(&self, id: &str) -> anyhow::Result<()> {
        let (staging, target) = self.places(id);
        tokio::fs::create_dir_all(&staging).await?;
        let stage = NodeStageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: staging.display().to_string(),
            volume_capability: Some(capability(Mode::SingleNodeWriter)),
            ..NodeStageVolumeRequest::default()
        };
        self.node.clone().node_stage_volume(stage).await?;
        let publish = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: staging.display().to_string(),
            target_path: target.display().to_string(),
            volume_capability: Some(capability(Mode::SingleNodeWriter)),
            ..NodePublishVolumeRequest::default()
        };
        self.node.clone().node_publish_volume(publish).await?;
        Ok(())
    }

    async fn unpublish(&self, id: &str) -> anyhow::Result<()> {
        let (staging, target) = self.places(id);
        let unpublish = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.display().to_string(),
        };
        self.node.clone().node_unpublish_volume(unpublish).await?;
        let unstage = NodeUnstageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: staging.display().to_string(),
        };
        self.node.clone().node_unstage_volume(unstage).await?;
        Ok(())
    }

    fn places(&self, id: &str) -> (PathBuf, PathBuf) {
        let pod = self.directory.join("pods").join(id.replace('/', "_"));
        (pod.join("staging"), pod.join("target"))
    }
}
