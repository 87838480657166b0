//! The client against the simulated array.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use stowage_sim::weka::control::faults::{Fault, Trouble};
use stowage_sim::weka::state::access::Role;
use stowage_sim::weka::{Array, Options};
use tokio_util::sync::CancellationToken;

use super::client::ClientOptions;
use super::clusters::LegacySecret;
use super::{Api, ApiError, Clusters, Deadline};
use crate::metrics::Metrics;
use crate::quota::{Enforcement, Size};

mod economy;

const SECURE: ClientOptions = ClientOptions {
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
async fn many_callers_share_one_login_and_one_failure() {
    let rig = Rig::new().await;
    let calls = (0..20).map(|_| async { rig.api().filesystem("default").await });
    for found in join_all(calls).await {
        assert_eq!(found.unwrap().unwrap().name, "default");
    }
    assert_eq!(rig.seen("login").await, 1);
    let wrong = rig.secret(&[("password", "hunter2")]);
    let deadline = Deadline::after(Duration::from_secs(20));
    let calls = (0..20).map(|_| async {
        let api = rig.clusters.of_request(&wrong, deadline).unwrap().unwrap();
        api.facts().await
    });
    for refused in join_all(calls).await {
        let error = refused.unwrap_err();
        assert!(matches!(error, ApiError::Login { .. }), "{error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let logins = rig.seen("login").await;
    assert!(logins < 5, "{logins} logins for 20 callers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_die_one_after_the_other_and_calls_go_on() {
    let rig = Rig::with(|options| options.listen = vec![options.listen[0]; 3]).await;
    let control = rig.array.control();
    for stopped in 0..2 {
        rig.api().filesystem("default").await.unwrap().unwrap();
        control.stop_endpoint(stopped).await.unwrap();
        for _ in 0..3 {
            rig.api().filesystem("default").await.unwrap().unwrap();
        }
    }
    control.start_endpoint(0).await.unwrap();
    control.stop_endpoint(2).await.unwrap();
    rig.api().filesystem("default").await.unwrap().unwrap();
    control.stop_endpoint(0).await.unwrap();
    let error = rig
        .api_within(Duration::from_secs(3), &[])
        .filesystem("default")
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ApiError::Unreachable { .. } | ApiError::Deadline { .. }
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_401_costs_one_login() {
    let rig = Rig::new().await;
    rig.api().filesystem("default").await.unwrap();
    rig.array.control().take_requests().await.unwrap();
    rig.array.control().revoke_tokens(true).await.unwrap();
    let calls = (0..20).map(|_| async { rig.api().filesystem("default").await });
    for found in join_all(calls).await {
        assert!(found.unwrap().is_some());
    }
    assert_eq!(rig.seen("login").await, 1);
    // An array that refuses every token is not asked for ever.
    rig.fault("fileSystems", None, Trouble::Refuse(401)).await;
    let error = rig.api().filesystem("default").await.unwrap_err();
    assert!(matches!(error, ApiError::Login { .. }), "{error}");
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
async fn a_deadline_ends_a_call_and_a_dead_cluster_holds_up_no_other() {
    let rig = Rig::new().await;
    let other = Rig::new().await;
    rig.api().facts().await.unwrap();
    rig.fault("fileSystems", None, Trouble::Delay(30_000)).await;
    let begun = Instant::now();
    let slow = rig.api_within(Duration::from_millis(700), &[]);
    let quick = async {
        let deadline = Deadline::after(Duration::from_secs(20));
        let api = rig
            .clusters
            .of_request(&other.secret(&[]), deadline)
            .unwrap()
            .unwrap();
        api.filesystem("default").await.unwrap().unwrap();
        begun.elapsed()
    };
    let (slow, quick) = tokio::join!(slow.filesystem("default"), quick);
    assert!(matches!(
        slow,
        Err(ApiError::Deadline { .. } | ApiError::Unreachable { .. })
    ));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(quick < Duration::from_secs(5), "{quick:?}");
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
async fn a_certificate_is_trusted_where_the_secret_says_so() {
    let rig = Rig::with(|options| options.tls = true).await;
    let error = rig.api().facts().await.unwrap_err();
    assert!(matches!(error, ApiError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("`caCertificate`"), "{error}");
    let authority = std::fs::read_to_string(rig.directory.path().join("data/ca.pem")).unwrap();
    let trusted = rig.api_within(Duration::from_secs(20), &[("caCertificate", &authority)]);
    trusted.facts().await.unwrap();
    let insecure = clusters(ClientOptions {
        insecure: true,
        ..SECURE
    });
    let api = insecure.of_request(&rig.secret(&[]), Deadline::after(Duration::from_secs(20)));
    api.unwrap().unwrap().facts().await.unwrap();
    let nonsense = rig.clusters.of_request(
        &rig.secret(&[("caCertificate", "nonsense")]),
        Deadline::after(Duration::from_secs(20)),
    );
    assert!(nonsense.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn organizations_and_roles_are_told_apart() {
    let rig = Rig::new().await;
    let control = rig.array.control();
    control
        .add_user(0, "reader", "reader", Role::ReadOnly)
        .await
        .unwrap();
    control.add_organization(7, "tenant").await.unwrap();
    control
        .add_user(7, "boss", "boss", Role::OrgAdmin)
        .await
        .unwrap();
    let time = Duration::from_secs(20);
    let reader = rig.api_within(time, &[("username", "reader"), ("password", "reader")]);
    assert!(
        reader
            .facts()
            .await
            .unwrap()
            .check_may_write("set a quota")
            .is_err()
    );
    let tenant = rig.api_within(
        time,
        &[
            ("username", "boss"),
            ("password", "boss"),
            ("organization", "tenant"),
        ],
    );
    assert!(
        tenant.filesystem("default").await.unwrap().is_none(),
        "it is of another organization"
    );
    let unknown = rig.api_within(time, &[("organization", "nobody")]);
    let error = unknown.facts().await.unwrap_err();
    assert!(error.to_string().contains("`nobody`"), "{error}");
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
        .turn(|knobs| knobs.quota_delay = 2500)
        .await
        .unwrap();
    let error = rig
        .api_within(Duration::from_secs(1), &[])
        .set_quota(&filesystem, inode, size)
        .await
        .unwrap_err();
    assert!(matches!(error, ApiError::Deadline { .. }), "{error}");
    assert!(error.to_string().contains("still being added"), "{error}");
    rig.api().set_quota(&filesystem, inode, size).await.unwrap();
    let quota = rig.api().quota(&filesystem, inode).await.unwrap().unwrap();
    assert_eq!(Size::from(quota.limits()), size);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_secret_is_a_new_client_at_once() {
    let rig = Rig::new().await;
    rig.api().facts().await.unwrap();
    rig.array
        .control()
        .add_user(0, "next", "next", Role::ClusterAdmin)
        .await
        .unwrap();
    let rotated = rig.api_within(
        Duration::from_secs(20),
        &[("username", "next"), ("password", "next")],
    );
    rotated.facts().await.unwrap();
    assert!(!Arc::ptr_eq(rotated.client(), rig.api().client()));
    let kept = rig.api();
    assert!(Arc::ptr_eq(kept.client(), rig.api().client()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.clusters.let_go(Duration::from_millis(10));
    assert!(
        !Arc::ptr_eq(kept.client(), rig.api().client()),
        "what nobody used is gone"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_renewed_before_it_ends() {
    let rig = Rig::with(|options| options.access_token_expiry = Duration::from_secs(1)).await;
    rig.api().filesystem("default").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    rig.array.control().take_requests().await.unwrap();
    rig.api().filesystem("default").await.unwrap().unwrap();
    let requests = rig.array.control().take_requests().await.unwrap();
    let paths: Vec<_> = requests
        .iter()
        .map(|request| request.path.as_str())
        .collect();
    assert!(
        paths.contains(&"login/refresh") && !paths.contains(&"login"),
        "{paths:?}"
    );
    assert!(requests.iter().all(|request| request.status != 401));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_version_6_are_written_as_urls_want_them() {
    let rig = Rig::with(|options| options.listen = vec!["[::1]:0".parse().unwrap()]).await;
    rig.api().filesystem("default").await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_tells_its_other_addresses_to_those_who_ask() {
    let rig = Rig::with(|options| options.listen = vec![options.listen[0]; 2]).await;
    let first = rig.array.endpoints()[0].clone();
    let secret = [
        ("endpoints", first.as_str()),
        ("autoUpdateEndpoints", "true"),
    ];
    let time = Duration::from_secs(20);
    rig.api_within(time, &secret).facts().await.unwrap();
    rig.array.control().stop_endpoint(0).await.unwrap();
    rig.api_within(time, &secret)
        .filesystem("default")
        .await
        .unwrap()
        .unwrap();
}
