//! The client against the simulated array.

mod endpoints;
mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stowage_sim::weka::control::faults::{Fault, Trouble};
use stowage_sim::weka::{Array, Options};
use tokio_util::sync::CancellationToken;

use super::client::ClientOptions;
use super::clusters::LegacySecret;
use super::{Api, ApiError, Clusters, Deadline};
use crate::metrics::Metrics;
use crate::quota::{Enforcement, Size};

mod economy;

const SECURE: ClientOptions = ClientOptions {
    rotate: false,
    insecure: false,
    timeout: Duration::from_secs(60),
};

struct Rig {
    directory: tempfile::TempDir,
    array: Array,
    clusters: Arc<Clusters>,
}

impl Rig {
    async fn with(change: impl FnOnce(&mut Options)) -> Self {
        stowage_service::client::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::new(directory.path().join("data"));
        change(&mut options);
        let array = Array::start(options).await.unwrap();
        let clusters = clusters(SECURE);
        Self {
            directory,
            array,
            clusters,
        }
    }

    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    fn secret(&self, more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let endpoints = self.array.endpoints().join(",");
        let base = [
            ("username", "admin"),
            ("password", "admin"),
            ("organization", "Root"),
            ("endpoints", endpoints.as_str()),
            ("scheme", self.array.scheme()),
        ];
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        base.into_iter()
            .chain(more.iter().copied())
            .map(owned)
            .collect()
    }

    fn api_within(&self, time: Duration, more: &[(&str, &str)]) -> Api {
        let deadline = Deadline::after(time);
        self.clusters
            .of_request(&self.secret(more), deadline)
            .unwrap()
            .unwrap()
    }

    fn api(&self) -> Api {
        self.api_within(Duration::from_secs(30), &[])
    }

    /// How often a path was asked for since the last time.
    async fn seen(&self, path: &str) -> usize {
        let requests = self.array.control().take_requests().await.unwrap();
        requests
            .iter()
            .filter(|request| request.path.trim_matches('/').ends_with(path))
            .count()
    }

    /// Waits until every fault has struck as often as it was to.
    async fn struck(&self) {
        while self.array.control().faults_left().await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn fault(&self, path: &str, times: Option<u32>, trouble: Trouble) {
        let fault = Fault {
            path: Some(path.to_owned()),
            times,
            trouble,
            ..Fault::default()
        };
        self.array.control().add_fault(fault).await.unwrap();
    }
}

fn clusters(options: ClientOptions) -> Arc<Clusters> {
    let legacy = LegacySecret {
        directory: "/no/such/directory".into(),
        name: None,
    };
    Arc::new(Clusters::new(options, legacy, Metrics::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passes_is_tried_again_and_what_does_not_is_told() {
    let rig = Rig::new().await;
    for trouble in [Trouble::Refuse(503), Trouble::Drop, Trouble::DoneButDropped] {
        rig.fault("fileSystems", Some(2), trouble).await;
        rig.api().filesystem("default").await.unwrap().unwrap();
    }
    rig.fault("fileSystems", Some(1), Trouble::Refuse(500))
        .await;
    let error = rig.api().filesystem("default").await.unwrap_err();
    assert!(
        matches!(error, ApiError::Refused { status: 500, .. }),
        "{error}"
    );
    rig.fault("fileSystems", Some(1), Trouble::Refuse(403))
        .await;
    let error = rig.api().filesystem("default").await.unwrap_err();
    assert!(
        error.to_string().contains("may not look for a filesystem"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_noticed_in_the_background() {
    let rig = Rig::with(|options| options.release = Some("4.1".parse().unwrap())).await;
    let stop = CancellationToken::new();
    let current = tokio::spawn({
        let (clusters, stop) = (rig.clusters.clone(), stop.clone());
        async move {
            clusters
                .keep_current(Duration::from_millis(100), stop)
                .await;
        }
    });
    assert!(!rig.api().facts().await.unwrap().resolves_paths());
    rig.array.control().upgrade("5.0").await.unwrap();
    let begun = Instant::now();
    while !rig.api().facts().await.unwrap().resolves_paths() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the upgrade is not noticed"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.cancel();
    current.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_read_to_their_last_page() {
    let rig = Rig::with(|options| options.page_size = 1).await;
    let all = rig.api().filesystems().await.unwrap();
    assert!(all.iter().any(|filesystem| filesystem.name == "default"));
    assert_eq!(
        rig.api()
            .filesystem("no-such")
            .await
            .unwrap()
            .map(|found| found.name),
        None
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_waited_for_as_long_as_the_caller_has() {
    let rig = Rig::new().await;
    let filesystem = rig.api().filesystem("default").await.unwrap().unwrap();
    let inode = rig
        .api()
        .inode(&filesystem, "".as_ref())
        .await
        .unwrap()
        .unwrap();
    let size = Size {
        bytes: 1 << 30,
        enforcement: Enforcement::Soft,
    };
    rig.array
        .control()
        .turn(|knobs| knobs.quota_delay = 3_600_000)
        .await
        .unwrap();
    let set = async |time| {
        let api = rig.api_within(time, &[]);
        api.set_quota(&filesystem, inode, size.into()).await
    };
    // On a busy machine the first ones end before they come to wait.
    for seconds in 1.. {
        let error = set(Duration::from_secs(seconds)).await.unwrap_err();
        assert!(matches!(error, ApiError::Deadline { .. }), "{error}");
        if error.to_string().contains("still being added") {
            break;
        }
    }
    rig.seen("").await;
    let finish = async {
        while rig.seen(&inode.to_string()).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rig.array.control().finish().await.unwrap();
    };
    let (set, ()) = tokio::join!(set(Duration::from_secs(60)), finish);
    set.unwrap();
    let quota = rig.api().quota(&filesystem, inode).await.unwrap().unwrap();
    assert_eq!(Size::from(quota.limits()), size);
}
