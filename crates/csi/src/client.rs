//! The caller's end of a driver's socket.
//!
//! A connection is made when the first call needs it and made again when the driver was restarted: the
//! process that calls never has to exit (upstream's sidecars do, and users see restarts).

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use stowage_api::backoff::Backoff;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint as ChannelEndpoint};
use tonic::{Status, TimeoutExpired};
use tower::{Service, ServiceExt as _, service_fn};
use tracing::Span;

use crate::call::{Call, Side, connection_lost};
use crate::deadline::{self, Limits};
use crate::endpoint::Endpoint;
use crate::metrics::{ClientMetrics, method_label};

/// Between attempts to connect. Upstream's sidecars wait no longer either.
const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(20),
    longest: Duration::from_secs(1),
};

/// How calls are made.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Deadline of a call that does not set its own (`tonic::Request::set_timeout`).
    pub timeout: Duration,
    /// How long a call waits for a socket that is not there or does not answer, before it is UNAVAILABLE.
    /// Nothing was sent until then, so waiting is safe, and a driver's restart goes unnoticed.
    pub patience: Duration,
    /// Where calls are counted.
    pub metrics: ClientMetrics,
}

/// A driver's socket. Cheap to clone; hand a clone to each generated client:
/// `ControllerClient::new(connection.clone())`.
///
/// Errors of the transport become gRPC codes that mean the right thing to a caller: `DEADLINE_EXCEEDED` when time
/// ran out, UNAVAILABLE for everything else, because the fate of the call is unknown and it must be repeated.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    timeout: Duration,
    metrics: ClientMetrics,
    driver_name: Arc<str>,
}

impl Connection {
    /// Prepares a connection; nothing is opened yet. Needs a tokio runtime around it.
    pub fn new(endpoint: &Endpoint, options: ClientOptions) -> Self {
        let path = endpoint.path().to_owned();
        let patience = options.patience;
        // The address is only a name here: the connector knows the path. Go servers expect `localhost`.
        let channel = ChannelEndpoint::from_static("http://localhost").connect_with_connector_lazy(
            service_fn(move |_: Uri| {
                let path = path.clone();
                async move { connect(path, patience).await.map(TokioIo::new) }
            }),
        );
        Self {
            channel,
            timeout: options.timeout,
            metrics: options.metrics,
            driver_name: "unknown-driver".into(),
        }
    }

    /// Counts calls under this name from now on. It is known only after the first call, `GetPluginInfo`.
    pub fn with_driver_name(mut self, name: &str) -> Self {
        self.driver_name = name.into();
        self
    }

    /// The same connection with another deadline for calls that do not set their own.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Connects, patiently: a driver that starts needs a moment until its socket is there.
async fn connect(path: PathBuf, patience: Duration) -> io::Result<UnixStream> {
    let give_up = Instant::now() + patience;
    let mut failures = 0;
    loop {
        let error = match UnixStream::connect(&path).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        failures += 1;
        let pause = PAUSES.after(failures);
        if Instant::now() + pause > give_up {
            return Err(io::Error::new(
                error.kind(),
                format!("socket `{}`: {error}", path.display()),
            ));
        }
        tokio::time::sleep(pause).await;
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        // The channel is asked inside the call, where the deadline counts.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let timeout = deadline::read(request.headers()).unwrap_or_else(|| {
            let value = deadline::write(self.timeout);
            request.headers_mut().insert(deadline::HEADER, value);
            self.timeout
        });
        let call = Call::start(
            method_label(request.uri().path()),
            Side::Client(self.metrics.clone(), self.driver_name.clone()),
            Span::current(),
        );
        let mut limits = Limits::of_client(timeout);
        let mut channel = self.channel.clone();
        Box::pin(async move {
            let answer = async { channel.ready().await?.call(request).await };
            let outcome = tokio::select! {
                biased;
                answer = answer => answer.map_err(|error| status_of(&error)),
                status = limits.exceeded() => Err(status),
            };
            Ok(match outcome {
                Ok(response) => call.follow(response, limits),
                Err(status) => call.refuse(status),
            })
        })
    }
}

fn status_of(error: &(dyn Error + 'static)) -> Status {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // The channel reads the deadline from the same header, and may be first to notice.
        if error.is::<TimeoutExpired>() {
            return Status::deadline_exceeded("the driver did not answer in time");
        }
        cause = error.source();
    }
    connection_lost(error)
}
