//! One call from its start to its last byte: time, code, log line, limits. Both sides of the socket use it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use stowage_api::causes::chain;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::Span;

use crate::deadline::Limits;
use crate::metrics::{
    ClientLabels, ClientMetrics, MethodLabels, ServerLabels, ServerMetrics, code_label,
};
use crate::waiting::Spent;

/// Who counts the call.
pub(crate) enum Side {
    /// The token shows the server that a call is under way.
    Server {
        metrics: ServerMetrics,
        spent: Spent,
        _under_way: TaskTrackerToken,
    },
    Client(ClientMetrics, Arc<str>),
}

/// A call under way. Dropped before it is finished, it counts as cancelled: the caller went away.
pub(crate) struct Call {
    method: &'static str,
    side: Side,
    span: Span,
    started: Instant,
    finished: bool,
}

impl Call {
    pub(crate) fn start(method: &'static str, side: Side, span: Span) -> Self {
        if let Side::Server { metrics, .. } = &side {
            metrics
                .in_flight
                .get_or_create(&MethodLabels {
                    method_name: method,
                })
                .inc();
        }
        Self {
            method,
            side,
            span,
            started: Instant::now(),
            finished: false,
        }
    }

    /// A panic in this call, caught. Its text is not passed on: it may quote anything.
    pub(crate) fn panicked(&self) -> Status {
        if let Side::Server { metrics, .. } = &self.side {
            metrics
                .panics
                .get_or_create(&MethodLabels {
                    method_name: self.method,
                })
                .inc();
        }
        Status::internal("the driver panicked while it handled this call; its log says where")
    }

    /// The call ends with `status` and nothing else.
    pub(crate) fn refuse(mut self, status: Status) -> Response<Body> {
        self.finish(status.code(), status.message());
        status.into_http()
    }

    /// Follows the answer to its end. A unary call that failed has its code in the headers; any other code
    /// comes last, and a stream may still run into a limit.
    pub(crate) fn follow(mut self, response: Response<Body>, limits: Limits) -> Response<Body> {
        if let Some(status) = Status::from_header_map(response.headers()) {
            self.finish(status.code(), status.message());
            return response;
        }
        response.map(|inner| {
            Body::new(FollowedBody {
                inner,
                limits,
                call: self,
            })
        })
    }

    fn finish(&mut self, code: Code, message: &str) {
        self.finished = true;
        let elapsed = self.started.elapsed();
        let (method_name, grpc_status_code) = (self.method, code_label(code));
        match &self.side {
            Side::Server { metrics, spent, .. } => {
                let of_method = MethodLabels { method_name };
                metrics.in_flight.get_or_create(&of_method).dec();
                let overhead = elapsed.saturating_sub(spent.total());
                metrics
                    .overhead
                    .get_or_create(&of_method)
                    .observe(overhead.as_secs_f64());
                let labels = ServerLabels {
                    method_name,
                    grpc_status_code,
                };
                metrics
                    .seconds
                    .get_or_create(&labels)
                    .observe(elapsed.as_secs_f64());
                self.span
                    .in_scope(|| log(method_name, code, message, elapsed.as_millis()));
            }
            Side::Client(metrics, driver_name) => {
                let labels = ClientLabels {
                    driver_name: driver_name.clone(),
                    method_name,
                    grpc_status_code,
                };
                metrics
                    .seconds
                    .get_or_create(&labels)
                    .observe(elapsed.as_secs_f64());
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.finished {
            self.finish(Code::Cancelled, "the caller went away");
        }
    }
}

/// The one log line of a call. Levels say who has to act: nobody, the caller by trying again, a person.
fn log(method: &str, code: Code, reason: &str, milliseconds: u128) {
    let status = code_label(code);
    match code {
        Code::Ok if changes_something(method) => {
            tracing::info!(status, milliseconds, "Call answered.");
        }
        // A driver that lacks an RPC is asked again and again; that is normal.
        Code::Ok | Code::Unimplemented => {
            tracing::debug!(status, milliseconds, "Call answered.");
        }
        Code::Internal | Code::DataLoss | Code::Unknown => {
            tracing::error!(status, reason, milliseconds, "Call failed.");
        }
        _ => tracing::warn!(status, reason, milliseconds, "Call failed."),
    }
}

fn changes_something(method: &str) -> bool {
    let name = method.rsplit('/').next().unwrap_or(method);
    let reads = name == "Probe"
        || name.contains("Get")
        || name.starts_with("List")
        || name.starts_with("Validate");
    !reads
}

/// The body of an answer: finds the status at its end, and ends early at a limit or a panic.
struct FollowedBody {
    inner: Body,
    limits: Limits,
    call: Call,
}

impl FollowedBody {
    /// Ends the body with trailers of our own.
    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.call.finish(status.code(), status.message());
        let mut trailers = HeaderMap::new();
        // Adding fails only for metadata that is not a valid header, and there is none.
        let _ = status.add_header(&mut trailers);
        self.inner = Body::empty();
        Frame::trailers(trailers)
    }
}

impl http_body::Body for FollowedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.call.finished {
            return Poll::Ready(None);
        }
        let span = this.call.span.clone();
        let polled = span.in_scope(|| {
            catch_unwind(AssertUnwindSafe(|| {
                Pin::new(&mut this.inner).poll_frame(cx)
            }))
        });
        match polled {
            Ok(Poll::Ready(Some(Ok(frame)))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    match Status::from_header_map(trailers) {
                        Some(status) => this.call.finish(status.code(), status.message()),
                        None => this.call.finish(Code::Unknown, "the answer has no status"),
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Ok(Poll::Ready(Some(Err(status)))) => {
                let status = match this.call.side {
                    Side::Server { .. } => status,
                    Side::Client(..) => connection_lost(&status),
                };
                this.call.finish(status.code(), status.message());
                Poll::Ready(Some(Err(status)))
            }
            Ok(Poll::Ready(None)) => {
                this.call.finish(Code::Unknown, "the answer has no status");
                Poll::Ready(None)
            }
            Ok(Poll::Pending) => match this.limits.poll_exceeded(cx) {
                Poll::Ready(status) => Poll::Ready(Some(Ok(this.end(&status)))),
                Poll::Pending => Poll::Pending,
            },
            Err(_) => {
                let status = this.call.panicked();
                Poll::Ready(Some(Ok(this.end(&status))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.call.finished && self.inner.is_end_stream()
    }
}

/// What a caller gets when the connection broke during a call: nobody knows what became of it, so the same call
/// must be made again. UNAVAILABLE says that; the transport's own "unknown" would read as a final failure.
pub(crate) fn connection_lost(error: &(dyn std::error::Error + 'static)) -> Status {
    let cause = chain(error);
    Status::unavailable(format!("the connection to the driver failed: {cause}"))
}
