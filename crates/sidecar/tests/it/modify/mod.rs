//! What newer servers have: VolumeAttributesClasses, and fields for the size that is being reached. Where the API server of
//! these tests has neither, what stands before it adds them.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod modifying;
mod newer;
mod overlay;
mod recovering;
