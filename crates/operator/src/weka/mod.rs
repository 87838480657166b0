//! `WekaClient`: Weka clients on nodes, and the CSI driver that comes along.

pub mod names;
pub mod nodes;
pub mod plan;
pub mod problem;
pub mod render;
