//! Leader election against a real API server.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use devcluster::testing::ApiServer;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Config};
use parking_lot::Mutex;
use serde_json::json;
use stowage_service::lease::{LeaseError, Loss};
use stowage_service::{Elections, KubeArgs, LeaseArgs, Metrics, client};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// A TCP line to the API server that can be cut: requests then hang, as on a dead network.
struct Line {
    cut: CancellationToken,
}

impl Line {
    /// The line, and the configuration for a candidate at its end.
    async fn to_server_of(config: &Config) -> (Self, Config) {
        let server = config.cluster_url.authority().unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = CancellationToken::new();
        let is_cut = cut.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward(near, server.clone(), is_cut.clone()));
            }
        });
        let mut through_line = config.clone();
        through_line.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
        (Self { cut }, through_line)
    }
}

async fn forward(mut near: TcpStream, server: String, cut: CancellationToken) {
    let mut far = TcpStream::connect(&server).await.unwrap();
    cut.run_until_cancelled(copy_bidirectional(&mut near, &mut far))
        .await;
    if cut.is_cancelled() {
        pending::<()>().await;
    }
}

/// What a candidate did, seen from outside.
struct Candidate {
    identity: String,
    metrics: Metrics,
    shutdown: CancellationToken,
    leading: watch::Receiver<bool>,
    ended: JoinHandle<Result<Option<()>, LeaseError>>,
}

impl Candidate {
    async fn leads(&mut self) {
        self.leads_within(Duration::from_secs(20)).await;
    }

    async fn leads_within(&mut self, patience: Duration) {
        timeout(patience, self.leading.wait_for(|leading| *leading))
            .await
            .expect("does not lead in time")
            .unwrap();
    }

    fn is_leading(&self) -> bool {
        *self.leading.borrow()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        let ended = timeout(Duration::from_secs(20), self.ended).await;
        ended.expect("does not stop").unwrap().unwrap();
    }

    /// The process dies: it neither renews nor releases.
    fn die(self) {
        self.ended.abort();
    }

    async fn loss(self) -> Loss {
        match timeout(Duration::from_secs(20), self.ended)
            .await
            .expect("still leads")
            .unwrap()
        {
            Err(LeaseError::Lost { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    lease: LeaseArgs,
}

/// Short timings: a lease of 3 s, given up after 2 s, renewed every 400 ms.
const FAST: [&str; 5] = [
    "--leader-election",
    "--leader-election-namespace=default",
    "--leader-election-lease-duration=3s",
    "--leader-election-renew-deadline=2s",
    "--leader-election-retry-period=400ms",
];

fn args(more: &[&str]) -> LeaseArgs {
    Flags::parse_from([&["test"], FAST.as_slice(), more].concat()).lease
}

/// One API server for all tests of this file; each has its own lease.
async fn config() -> Config {
    let kubeconfig = ApiServer::shared().kubeconfig();
    KubeArgs {
        kubeconfig: Some(kubeconfig.into()),
    }
    .config()
    .await
    .unwrap()
}

fn leases(config: &Config) -> Api<Lease> {
    Api::namespaced(client::connect(config.clone()).unwrap(), "default")
}

/// A candidate that, once it leads, works until it is asked to stop or loses the lease.
fn candidate(config: Config, lease: &str, more: &[&str]) -> Candidate {
    start(config, lease, more, |shutdown, lost| async move {
        tokio::select! { () = shutdown.cancelled() => {}, () = lost.cancelled() => {} }
    })
}

fn start<F>(
    config: Config,
    lease: &str,
    more: &[&str],
    work: impl FnOnce(CancellationToken, CancellationToken) -> F + Send + 'static,
) -> Candidate
where
    F: Future<Output = ()> + Send,
{
    let metrics = Metrics::new();
    let elections = Elections::new(config, &args(more), &metrics).unwrap();
    let identity = elections.identity().to_owned();
    let shutdown = CancellationToken::new();
    let (leads, leading) = watch::channel(false);
    let (lease, stop) = (lease.to_owned(), shutdown.clone());
    let ended = tokio::spawn(async move {
        let work = |lost| async {
            leads.send_replace(true);
            work(stop.clone(), lost).await;
            leads.send_replace(false);
        };
        elections.lead(&lease, &stop, work).await
    });
    Candidate {
        identity,
        metrics,
        shutdown,
        leading,
        ended,
    }
}

async fn spec(leases: &Api<Lease>, name: &str) -> LeaseSpec {
    leases.get(name).await.unwrap().spec.unwrap()
}

/// Changes a lease as a person would. Its holder writes too: again until our write is the one that counts.
async fn edit(leases: &Api<Lease>, name: &str, change: impl Fn(&mut Lease)) {
    for _ in 0..20 {
        let mut lease = leases.get(name).await.unwrap();
        change(&mut lease);
        if leases
            .replace(name, &PostParams::default(), &lease)
            .await
            .is_ok()
        {
            return;
        }
    }
    panic!("cannot write lease {name}");
}

async fn set_holder(leases: &Api<Lease>, name: &str, holder: Option<&str>) {
    edit(leases, name, |lease| {
        lease.spec.as_mut().unwrap().holder_identity = holder.map(str::to_owned);
    })
    .await;
}

#[tokio::test]
async fn the_first_candidate_leads_and_is_written_into_the_lease() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = candidate(
        config.clone(),
        "first",
        &["--leader-election-labels=team:storage"],
    );
    first.leads().await;
    let lease = leases.get("first").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_ref(), Some(&first.identity));
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(3), Some(0))
    );
    assert_eq!(lease.metadata.labels.unwrap()["team"], "storage");
    let metrics = first.metrics.encode().unwrap();
    assert!(
        metrics.contains("leader_election_master_status{name=\"first\"} 1\n"),
        "{metrics}"
    );

    sleep(Duration::from_secs(4)).await;
    assert!(first.is_leading());
    let renewed = self::spec(&leases, "first").await;
    assert!(
        renewed.renew_time > spec.renew_time && renewed.acquire_time == spec.acquire_time,
        "{renewed:?}"
    );
    first.stop().await;
}

#[tokio::test]
async fn a_second_candidate_takes_over_at_once_when_the_first_stops() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = candidate(config.clone(), "handover", &[]);
    first.leads().await;
    let mut second = candidate(config.clone(), "handover", &[]);
    sleep(Duration::from_secs(4)).await;
    assert!(first.is_leading() && !second.is_leading());
    first.stop().await;
    second.leads_within(Duration::from_secs(2)).await;
    assert_eq!(spec(&leases, "handover").await.lease_transitions, Some(1));
    second.stop().await;
    assert_eq!(spec(&leases, "handover").await.holder_identity, None);
}

#[tokio::test]
async fn a_dead_leader_is_replaced_after_the_lease_duration_and_not_before() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = candidate(config.clone(), "dead", &[]);
    first.leads().await;
    first.die();
    // What a holder with a wrong clock would have written; observation does not care.
    edit(&leases, "dead", |lease| {
        let renewed = lease.spec.as_mut().unwrap().renew_time.as_mut().unwrap();
        renewed.0 = "2001-01-01T00:00:00Z".parse().unwrap();
    })
    .await;
    let mut second = candidate(
        config.clone(),
        "dead",
        &["--leader-election-labels=team:storage"],
    );
    sleep(Duration::from_millis(2500)).await;
    assert!(
        !second.is_leading(),
        "took over a lease that it saw for 2.5 of 3 s"
    );
    second.leads_within(Duration::from_secs(3)).await;
    let labels = leases.get("dead").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["team"], "storage");
    second.stop().await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_before_the_other_starts() {
    let config = config().await;
    let (line, through_line) = Line::to_server_of(&config).await;
    let mut first = candidate(through_line, "cut-off", &[]);
    first.leads().await;
    let mut second = candidate(config.clone(), "cut-off", &[]);
    sleep(Duration::from_secs(1)).await;
    line.cut.cancel();
    let cut = Instant::now();
    assert_eq!(first.loss().await, Loss::Deadline);
    let stopped = cut.elapsed();
    assert!(
        (1500..2900).contains(&stopped.as_millis()),
        "stopped {stopped:?} after the cut"
    );
    assert!(!second.is_leading(), "two leaders");
    second.leads_within(Duration::from_secs(3)).await;
    second.stop().await;
}

#[tokio::test]
async fn work_that_ignores_the_loss_is_dropped_when_the_lease_expires() {
    let config = config().await;
    let (line, through_line) = Line::to_server_of(&config).await;
    let mut first = start(through_line, "stubborn", &[], |_, _| pending());
    first.leads().await;
    line.cut.cancel();
    let cut = Instant::now();
    assert_eq!(first.loss().await, Loss::Deadline);
    let dropped = cut.elapsed();
    assert!(
        (2400..3500).contains(&dropped.as_millis()),
        "dropped {dropped:?} after the cut"
    );
}

#[tokio::test]
async fn a_leader_stops_when_somebody_else_is_written_into_the_lease() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = candidate(config.clone(), "taken", &[]);
    first.leads().await;
    set_holder(&leases, "taken", Some("usurper")).await;
    assert_eq!(first.loss().await, Loss::TakenBy("usurper".to_owned()));
}

#[tokio::test]
async fn a_leader_stops_when_a_person_clears_the_holder() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = candidate(config.clone(), "cleared", &[]);
    first.leads().await;
    set_holder(&leases, "cleared", None).await;
    assert_eq!(first.loss().await, Loss::Cleared);
}

#[tokio::test]
async fn a_leader_survives_changes_that_leave_it_the_holder() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = candidate(config.clone(), "touched", &[]);
    first.leads().await;
    edit(&leases, "touched", |lease| {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert("note".to_owned(), "by hand".to_owned());
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    leases
        .delete("touched", &DeleteParams::default())
        .await
        .unwrap();
    sleep(Duration::from_secs(3)).await;
    assert!(first.is_leading());
    assert_eq!(
        spec(&leases, "touched").await.holder_identity.as_ref(),
        Some(&first.identity)
    );
    first.stop().await;
}

#[tokio::test]
async fn work_that_winds_down_keeps_the_lease() {
    let config = config().await;
    let leases = leases(&config);
    let mut first = start(
        config.clone(),
        "winding-down",
        &[],
        |shutdown, lost| async move {
            shutdown.cancelled().await;
            // Longer than the lease duration: only renewals can keep it.
            tokio::select! { () = sleep(Duration::from_secs(4)) => {}, () = lost.cancelled() => panic!("lost") }
        },
    );
    first.leads().await;
    let mut second = candidate(config.clone(), "winding-down", &[]);
    first.shutdown.cancel();
    sleep(Duration::from_millis(3500)).await;
    assert!(!second.is_leading());
    assert_eq!(
        spec(&leases, "winding-down").await.holder_identity.as_ref(),
        Some(&first.identity)
    );
    first.stop().await;
    second.leads_within(Duration::from_secs(2)).await;
    second.stop().await;
}

#[tokio::test]
async fn one_process_leads_several_leases() {
    let config = config().await;
    let leases = leases(&config);
    let elections = Arc::new(Elections::new(config.clone(), &args(&[]), &Metrics::new()).unwrap());
    let shutdown = CancellationToken::new();
    let leading = Arc::new(AtomicUsize::new(0));
    let names = ["several-a", "several-b", "several-c"];
    let leads = names.map(|name| {
        let (elections, shutdown, leading) = (elections.clone(), shutdown.clone(), leading.clone());
        tokio::spawn(async move {
            let work = |_| async {
                leading.fetch_add(1, Ordering::Relaxed);
                shutdown.cancelled().await;
            };
            elections.lead(name, &shutdown, work).await
        })
    });
    sleep(Duration::from_secs(2)).await;
    assert_eq!(leading.load(Ordering::Relaxed), 3);
    shutdown.cancel();
    for (name, lead) in names.into_iter().zip(leads) {
        lead.await.unwrap().unwrap();
        assert_eq!(spec(&leases, name).await.holder_identity, None);
    }
}

#[tokio::test]
async fn without_leader_election_work_starts_at_once_and_no_lease_is_made() {
    let config = config().await;
    let leases = leases(&config);
    let mut alone = args(&[]);
    alone.leader_election = false;
    let elections = Elections::new(config.clone(), &alone, &Metrics::new()).unwrap();
    let led = elections
        .lead("alone", &CancellationToken::new(), |_| async { 7 })
        .await
        .unwrap();
    assert_eq!(led, Some(7));
    assert_eq!(leases.get_opt("alone").await.unwrap(), None);
}

#[tokio::test]
async fn a_process_that_never_led_stops_when_asked_to() {
    let config = config().await;
    let mut first = candidate(config.clone(), "never", &[]);
    first.leads().await;
    let second = candidate(config.clone(), "never", &[]);
    sleep(Duration::from_secs(1)).await;
    second.shutdown.cancel();
    let ended = timeout(Duration::from_secs(2), second.ended)
        .await
        .expect("does not stop")
        .unwrap();
    assert!(matches!(ended, Ok(None)), "{ended:?}");
    first.stop().await;
}

#[tokio::test]
async fn the_holder_is_logged_by_name_and_only_once() {
    let log = Log::default();
    let _guard = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .set_default();
    let config = config().await;
    let mut first = candidate(config.clone(), "logged", &[]);
    first.leads().await;
    let second = candidate(config.clone(), "logged", &[]);
    sleep(Duration::from_secs(2)).await;
    second.stop().await;
    let said = format!(
        "Another process is the leader; waiting. lease=logged holder={}",
        first.identity
    );
    assert_eq!(log.text().matches(&said).count(), 1, "{}", log.text());
    first.stop().await;
}

/// What was logged in this thread, where the tasks of a test run.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_role_that_grants_get_create_and_update_is_enough() {
    let config = config().await;
    let client = client::connect(config.clone()).unwrap();
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "lessee"},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "lessee"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lessee"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "lessee"}],
    }))
    .unwrap();
    Api::default_namespaced(client.clone())
        .create(&PostParams::default(), &role)
        .await
        .unwrap();
    Api::default_namespaced(client)
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    let mut as_lessee = config.clone();
    as_lessee.auth_info.impersonate = Some("lessee".to_owned());

    let mut first = candidate(as_lessee.clone(), "rented", &[]);
    first.leads().await;
    let mut second = candidate(as_lessee, "rented", &[]);
    sleep(Duration::from_secs(1)).await;
    first.stop().await;
    second.leads_within(Duration::from_secs(2)).await;
    second.stop().await;
}
