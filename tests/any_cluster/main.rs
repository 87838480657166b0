//! End-to-end tests that run on any cluster, the user's own included.

// A test that cannot go on should say where: that is what unwrap does.
#![allow(clippy::unwrap_used)]

mod api_access;
mod operator;
mod operator_samples;
mod operator_trouble;
mod operator_updates;
mod replaced;
mod workloads;
