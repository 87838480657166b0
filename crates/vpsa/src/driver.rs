//! The CSI services.
//!
//! - [`objects`]: custom resources, and waiting for them.
//! - [`names`]: names of objects for names of requests.
//! - [`usage`]: what a volume is to be used as.
//! - [`parameters`]: parameters of storage classes.
//! - [`publication`]: what a controller tells a node about an attached volume.
//! - [`identity`], [`controller`], [`node`]: the services.
//!
//! The controller makes and changes custom resources, and waits for the control plane to do what they say: whichever process
//! leads it. So any number of controllers may serve, and what a call began goes on when its caller has given up.

pub mod controller;
pub mod error;
pub mod names;
pub mod node;
pub mod objects;
pub mod parameters;
pub mod publication;
pub mod usage;

use std::future::Future;
use std::time::Duration;

use stowage_rest::Deadline;
use tonic::{Request, Response, Status};

use self::error::Error;

/// How much earlier than its caller a call gives up, so that the caller gets the reason.
const HEAD_START: Duration = Duration::from_millis(250);

/// When the work for a request must be done.
pub fn deadline<R>(request: &Request<R>, longest: Duration) -> Deadline {
    let asked = stowage_csi::deadline::of_request(request);
    let asked = asked.map(|time| time.saturating_sub(HEAD_START.min(time / 10)));
    Deadline::after(asked.unwrap_or(longest).min(longest))
}

/// Answers a call.
async fn answer<T>(work: impl Future<Output = Result<T, Error>>) -> Result<Response<T>, Status> {
    Ok(Response::new(work.await?))
}
