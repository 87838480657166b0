//! What every long-running process has: logs, metrics, health, shutdown, leader lease.
//!
//! A role of the product parses its arguments, starts a [`Service`], and hands it the work:
//!
//! ```no_run
//! # use clap::Parser;
//! # use stowage_service::{RunError, Service, ServiceArgs, StartError};
//! # #[derive(Parser)]
//! # struct Args { #[command(flatten)] service: ServiceArgs }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let args = Args::parse();
//! let service = Service::start(&args.service)?;
//!
//! let socket = service.health().check("socket");
//! let shutdown = service.shutdown();
//! let work = async move {
//!     socket.ready();
//!     shutdown.cancelled().await;
//!     Ok::<(), std::io::Error>(())
//! };
//! service.run(work).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`service`] | [`Service`]: starts everything below, runs the work, waits for the tasks at the end |
//! | [`log`] | log lines on stderr, as text or JSON; a level that can change while the process runs |
//! | [`metrics`] | the registry behind `/metrics`, with the process and build metrics already in it |
//! | [`health`] | `/healthz` and the named checks of `/readyz` |
//! | [`admin`] | the HTTP port that serves all of these |
//! | [`tasks`] | named background tasks that are waited for, and named when they do not end |
//! | [`lease`] | leader election on `Lease` objects, any number of them in one process |
//! | [`client`] | the Kubernetes client, from a kubeconfig or from inside a pod |
//! | [`go_flags`] | flags of Go programs that are taken and do nothing |
//! | [`duration`] | durations as Go writes them, for flags that come from Go programs |
//! | [`arenas`] | the limit on malloc arenas |
//! | [`memory`] | gives back what only the start needed |
//!
//! Flags that the Go sidecars have carry the same names and meaning here, so that their manifests keep working.

pub mod admin;
pub mod arenas;
pub mod client;
pub mod duration;
pub mod go_flags;
pub mod health;
pub mod lease;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod service;
mod signals;
pub mod tasks;

pub use admin::AdminArgs;
pub use client::KubeArgs;
pub use health::Health;
pub use lease::{Elections, LeaseArgs};
pub use log::LogArgs;
pub use metrics::Metrics;
pub use service::{Process, RunError, Service, ServiceArgs, StartError};
pub use signals::stop_on_signal;
pub use tasks::Tasks;
