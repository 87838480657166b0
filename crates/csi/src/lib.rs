//! The CSI protocol and what every driver and the sidecar need around it.
//!
//! - [`proto`]: messages, clients and server traits, generated from `proto/`.

pub mod proto;
