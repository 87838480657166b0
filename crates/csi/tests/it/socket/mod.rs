//! Servers and clients over real UNIX sockets.
//!
//! - `driver`: a small driver whose calls hang, panic or wait when told to, and the harness around it
//! - `files`: the socket as a file: mode, stale files, removal
//! - `calls`: what happens around a call: panics, deadlines, locks, metrics, logs
//! - `shutdown`: how a server ends
//! - `reconnect`: a client whose driver goes away and comes back
//! - `raw`: a caller made of bytes
//! - `old_kubelet`: callers that send a path as authority
//! - `registration`: the kubelet's questions

mod calls;
mod driver;
mod files;
mod old_kubelet;
mod raw;
mod reconnect;
mod registration;
mod shutdown;
