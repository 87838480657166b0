//! What happens around every call a driver answers.
//!
//! - a span with the method (and the volume, once [`locks`](crate::locks) knows it), and one log line at the end;
//! - duration, status code and calls in flight as metrics;
//! - the caller's deadline: the handler's future is dropped and `DEADLINE_EXCEEDED` answered;
//! - a panic ends its call with INTERNAL, the process goes on.
//!
//! Requests are not looked at: nothing in here can print a secret.

use std::convert::Infallible;
use std::future::Future;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use http::{Request, Response};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::field::Empty;
use tracing::{Instrument as _, info_span};

use crate::call::{Call, Side};
use crate::deadline::Limits;
use crate::metrics::{ServerMetrics, method_label};
use crate::waiting::Spent;

/// Wraps the services of a driver. [`server::serve`](crate::server::serve) does so by itself.
#[derive(Clone, Debug)]
pub struct CallLayer {
    metrics: ServerMetrics,
    under_way: TaskTracker,
    cut_off: CancellationToken,
}

impl CallLayer {
    /// A layer that counts into `metrics`.
    pub fn new(metrics: ServerMetrics) -> Self {
        Self {
            metrics,
            under_way: TaskTracker::new(),
            cut_off: CancellationToken::new(),
        }
    }

    /// Waits until no call is under way.
    pub async fn idle(&self) {
        // Closing only lets somebody wait for the tracker: calls are still counted.
        self.under_way.close();
        self.under_way.wait().await;
    }

    /// Ends all calls at once, with UNAVAILABLE.
    pub fn cut_off(&self) {
        self.cut_off.cancel();
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> CallService<S> {
        CallService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service inside the [`CallLayer`].
#[derive(Clone, Debug)]
pub struct CallService<S> {
    inner: S,
    layer: CallLayer,
}

impl<S> Service<Request<Body>> for CallService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = method_label(request.uri().path());
        let spent = Spent::default();
        let span = info_span!("csi", method, volume_id = Empty);
        let call = Call::start(
            method,
            Side::Server {
                metrics: self.layer.metrics.clone(),
                spent: spent.clone(),
                _under_way: self.layer.under_way.token(),
            },
            span.clone(),
        );
        let mut limits = Limits::of_server(request.headers(), &self.layer.cut_off);
        // The clone may not be ready; the one that said it is does the call.
        let fresh = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, fresh);

        let answer = async move {
            // A block of its own, so that a panic before the first await is caught as well.
            let handling =
                AssertUnwindSafe(spent.during(async { ready.call(request).await })).catch_unwind();
            let outcome = tokio::select! {
                biased;
                done = handling => match done {
                    Ok(Ok(response)) => Ok(response),
                    Err(_) => Err(call.panicked()),
                },
                status = limits.exceeded() => Err(status),
            };
            Ok(match outcome {
                Ok(response) => call.follow(response, limits),
                Err(status) => call.refuse(status),
            })
        };
        Box::pin(answer.instrument(span))
    }
}
