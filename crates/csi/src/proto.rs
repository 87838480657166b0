//! Messages, clients and server traits, generated from `proto/` when the crate is built.
//!
//! Messages that carry secrets print `***` in their place: a request may be logged as it is.
//! Server traits have a default for every RPC that answers UNIMPLEMENTED, so a driver writes only what it has.

mod capability;
mod redacted;

/// Key under which the kubelet passes service account tokens in a volume context.
pub const SERVICE_ACCOUNT_TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// CSI 1.12.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod csi {
    tonic::include_proto!("csi.v1");
    include!(concat!(env!("OUT_DIR"), "/redacted.rs"));
}

/// The kubelet's plugin registration, version 1.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// The compiled descriptors of everything above (an encoded `FileDescriptorSet`), for tools that inspect the wire.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The path of every RPC, such as `/csi.v1.Identity/Probe`.
pub const METHODS: &[&str] = include!(concat!(env!("OUT_DIR"), "/methods.rs"));
