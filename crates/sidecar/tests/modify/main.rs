//! What newer servers have: VolumeAttributesClasses, and fields for the size that is being reached. The API server of
//! these tests has neither; what stands before it adds them.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../controller/rig.rs"]
#[allow(dead_code, reason = "made for another set of tests")]
mod rig;
#[path = "../controller/sidecar.rs"]
#[allow(dead_code, reason = "made for another set of tests")]
mod sidecar;

mod modifying;
mod newer;
mod overlay;
mod recovering;
