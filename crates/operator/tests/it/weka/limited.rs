//! A client that may send so many writes, and is dead then; and whose watches may be behind.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task;

use http::{Method, Request};
use kube::client::Body;
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// How many writes the operator may still send; what comes after is lost with it. Reads are counted. Clones share it.
#[derive(Clone)]
pub(crate) struct Allowance {
    left: Arc<AtomicI64>,
    reads: Arc<AtomicI64>,
    /// The kind whose watch hears of nothing; empty: none.
    behind: watch::Receiver<&'static str>,
    /// How many watches hear of nothing.
    held: Arc<AtomicI64>,
}

impl<S> Layer<S> for Allowance {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited {
            inner,
            left: self.clone(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Limited<S> {
    inner: S,
    left: Allowance,
}

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> task::Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_write = *request.method() != Method::GET
            && !request.uri().query().unwrap_or_default().contains("dryRun");
        if !is_write {
            self.left.reads.fetch_add(1, Ordering::SeqCst);
        } else if self.left.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Box::pin(async { Err("the operator is dead".into()) });
        }
        let (uri, mut left) = (request.uri().clone(), self.left.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let plural = uri.path().rsplit('/').next().unwrap_or_default();
            let is_watch = uri.query().unwrap_or_default().contains("watch=");
            if is_watch && plural == *left.behind.borrow() {
                left.held.fetch_add(1, Ordering::SeqCst);
                let _ = left.behind.wait_for(|behind| plural != *behind).await;
            }
            answer.await
        })
    }
}

impl Allowance {
    pub(crate) fn of(writes: i64) -> Self {
        Self::with(writes, watch::Sender::new("").subscribe())
    }

    /// The same, where the watch of a kind hears of nothing while `behind` names it.
    pub(crate) fn with(writes: i64, behind: watch::Receiver<&'static str>) -> Self {
        Self {
            left: Arc::new(AtomicI64::new(writes)),
            reads: Arc::default(),
            held: Arc::default(),
            behind,
        }
    }

    /// Whether a watch hears of nothing. It has listed what there was before.
    pub(crate) fn is_behind(&self) -> bool {
        self.held.load(Ordering::SeqCst) > 0
    }

    /// Nothing more.
    pub(crate) fn end(&self) {
        self.left.store(0, Ordering::SeqCst);
    }

    /// How many are left; less than none when more were tried.
    pub(crate) fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    /// How many reads were sent, watches included.
    pub(crate) fn reads(&self) -> i64 {
        self.reads.load(Ordering::SeqCst)
    }
}
