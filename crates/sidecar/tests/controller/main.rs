//! The controller's roles beside a driver in memory, against a real API server and its controllers.

mod crash;
mod deletion;
mod interchange;
mod lifecycle;
mod request;
mod rig;
mod sidecar;
mod topology;
