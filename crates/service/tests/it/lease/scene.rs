//! The API server, the candidates, and the time that a test lets pass.
//!
//! The server answers when it answers; the clock of the candidates stands still meanwhile. So a slow machine makes a test
//! slower, and changes nothing of who leads and when.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use clap::Parser;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::PostParams;
use kube::{Api, Client, Config};
use stowage_service::lease::{LeaseError, Loss};
use stowage_service::{Elections, KubeArgs, LeaseArgs, Metrics, client};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio::time::{Instant, advance, pause};
use tokio_util::sync::CancellationToken;

pub const SECOND: Duration = Duration::from_secs(1);

/// How finely time passes.
const TICK: Duration = Duration::from_millis(100);

/// More turns of the runtime than a request needs on its way to a [`Line`], and its answer on its way back.
const TURNS: usize = 50;

/// After this, by the clock of the machine, something does not come at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fails what would wait for ever: the clock of the runtime cannot, it stands still.
pub async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> T {
    let (_waiting, waits) = mpsc::channel::<()>();
    let (expire, expired) = oneshot::channel::<()>();
    thread::spawn(move || {
        let _ = waits.recv_timeout(PATIENCE);
        drop(expire);
    });
    tokio::select! {
        it = comes => it,
        _ = expired => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// The clock of the runtime, and of all candidates with it.
pub struct Clock {
    /// How many requests the server has not answered yet.
    unanswered: watch::Sender<usize>,
    /// Dropped at the end of the test.
    _hold: mpsc::Sender<()>,
}

impl Clock {
    fn hold() -> Self {
        pause();
        let (hold, is_let_go) = mpsc::channel::<()>();
        // A paused clock goes on to the next timer whenever all tasks wait, for the server too; but not beside blocking work.
        spawn_blocking(move || is_let_go.recv());
        Self {
            unanswered: watch::Sender::new(0),
            _hold: hold,
        }
    }

    /// In ticks, so that each timer ends at its time; none passes while the server owes an answer.
    async fn pass(&self, time: Duration) {
        let end = Instant::now() + time;
        self.settle().await;
        while Instant::now() < end {
            advance(TICK).await;
            self.settle().await;
        }
    }

    /// Waits until everybody waits for time to pass.
    async fn settle(&self) {
        let mut unanswered = self.unanswered.subscribe();
        for _ in 0..TURNS {
            let answered = unanswered.wait_for(|requests| *requests == 0);
            in_time("the server answers", answered).await.unwrap();
            yield_now().await;
        }
    }
}

/// One candidate's line to the API server. Once it is cut, requests hang, as on a dead network.
#[derive(Clone)]
pub struct Line {
    asked: Arc<AtomicUsize>,
    is_cut: Arc<AtomicBool>,
    unanswered: watch::Sender<usize>,
}

impl Line {
    /// The line, and the configuration for a candidate at its end.
    async fn to_server_of(config: &Config, clock: &Clock) -> (Self, Config) {
        let server = client::connect_without_retry(config.clone()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let line = Self {
            asked: Arc::default(),
            is_cut: Arc::default(),
            unanswered: clock.unanswered.clone(),
        };
        let here = line.clone();
        let forward = move |request| here.clone().forward(server.clone(), request);
        let router = Router::new().fallback(forward);
        tokio::spawn(async move { axum::serve(listener, router).await });
        (line, Config::new(url.parse().unwrap()))
    }

    async fn forward(self, server: Client, request: Request) -> Response {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is_cut.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        let _unanswered = Unanswered::new(self.unanswered);
        let (head, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let request = Request::from_parts(head, body.to_vec().into());
        let (head, body) = server.send(request).await.unwrap().into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
        Response::from_parts(head, Body::from(body))
    }

    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// How often the server was asked for anything.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// One request, until it is answered or its candidate no longer waits for it.
struct Unanswered(watch::Sender<usize>);

impl Unanswered {
    fn new(count: watch::Sender<usize>) -> Self {
        count.send_modify(|requests| *requests += 1);
        Self(count)
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests -= 1);
    }
}

/// What a candidate did, seen from outside.
pub struct Candidate {
    pub identity: String,
    metrics: Metrics,
    pub line: Line,
    pub shutdown: CancellationToken,
    leading: watch::Receiver<bool>,
    pub ended: JoinHandle<Result<Option<()>, LeaseError>>,
}

impl Candidate {
    /// Without any time passing.
    pub async fn leads(&mut self) {
        let leads = self.leading.wait_for(|leading| *leading);
        in_time("the candidate leads", leads).await.unwrap();
    }

    pub fn is_leading(&self) -> bool {
        *self.leading.borrow()
    }

    pub fn status(&self) -> String {
        let metrics = self.metrics.encode().unwrap();
        let status = metrics
            .lines()
            .find(|line| line.starts_with("leader_election_master_status{"));
        status.unwrap().to_owned()
    }

    pub async fn stop(self) {
        self.shutdown.cancel();
        let ended = in_time("the candidate stops", self.ended).await;
        ended.unwrap().unwrap();
    }

    /// The process dies: it neither renews nor releases.
    pub fn die(self) {
        self.ended.abort();
    }

    pub async fn loss(self) -> Loss {
        match in_time("the leader stops", self.ended).await.unwrap() {
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

/// A lease of 3 s, given up after 2 s, renewed and looked at every 400 ms.
const FLAGS: [&str; 5] = [
    "--leader-election",
    "--leader-election-namespace=default",
    "--leader-election-lease-duration=3s",
    "--leader-election-renew-deadline=2s",
    "--leader-election-retry-period=400ms",
];

pub fn args(more: &[&str]) -> LeaseArgs {
    Flags::parse_from([&["test"], FLAGS.as_slice(), more].concat()).lease
}

/// The API server that all tests of this file share, each with a lease of its own, and the test's clock.
pub struct Scene {
    pub config: Config,
    pub leases: Api<Lease>,
    clock: Clock,
}

impl Scene {
    pub async fn new() -> Self {
        let kubeconfig = stowage_testing::shared().kubeconfig();
        let args = KubeArgs {
            kubeconfig: Some(kubeconfig.into()),
        };
        let config = args.config().await.unwrap();
        let leases = Api::namespaced(client::connect(config.clone()).unwrap(), "default");
        Self {
            config,
            leases,
            clock: Clock::hold(),
        }
    }

    pub async fn pass(&self, time: Duration) {
        self.clock.pass(time).await;
    }

    /// A candidate that, once it leads, works until it is asked to stop or loses the lease.
    pub async fn candidate(&self, lease: &str, more: &[&str]) -> Candidate {
        self.start(lease, more, |shutdown, lost| async move {
            tokio::select! { () = shutdown.cancelled() => {}, () = lost.cancelled() => {} }
        })
        .await
    }

    /// A candidate that, once it leads, does this work. It has looked at the lease.
    pub async fn start<F>(
        &self,
        lease: &str,
        more: &[&str],
        work: impl FnOnce(CancellationToken, CancellationToken) -> F + Send + 'static,
    ) -> Candidate
    where
        F: Future<Output = ()> + Send,
    {
        let metrics = Metrics::new();
        let (line, config) = Line::to_server_of(&self.config, &self.clock).await;
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
        self.clock.settle().await;
        assert!(line.asked() > 0, "the candidate did not look at the lease");
        Candidate {
            identity,
            metrics,
            line,
            shutdown,
            leading,
            ended,
        }
    }

    pub async fn spec(&self, lease: &str) -> LeaseSpec {
        self.leases.get(lease).await.unwrap().spec.unwrap()
    }

    /// Changes a lease as a person would. Its holder, which writes too, waits for time to pass.
    pub async fn edit(&self, lease: &str, change: impl Fn(&mut Lease)) {
        let mut changed = self.leases.get(lease).await.unwrap();
        change(&mut changed);
        let options = PostParams::default();
        self.leases
            .replace(lease, &options, &changed)
            .await
            .unwrap();
    }

    pub async fn set_holder(&self, lease: &str, holder: Option<&str>) {
        self.edit(lease, |lease| {
            lease.spec.as_mut().unwrap().holder_identity = holder.map(str::to_owned);
        })
        .await;
    }
}
