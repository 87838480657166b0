//! The operator: turns a description of a CSI driver into workloads and keeps them.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what an administrator sets once for all drivers |
//! | [`driver`] | the generator: from a driver that is known to be right to objects; pure, cannot fail |
//! | [`driver_deployment`] | the front door `CSIDriverDeployment`: validate, build, apply, status, cleanup |

pub mod config;
pub mod driver;
pub mod driver_deployment;
