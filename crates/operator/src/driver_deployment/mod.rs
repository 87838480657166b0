//! `CSIDriverDeployment`: one driver from one resource.

pub mod image;
pub mod validate;
