//! `WekaClient`: Weka clients on nodes, and the CSI driver that comes along.
//!
//! | module | holds |
//! |---|---|
//! | [`names`], [`nodes`], [`plan`], `join` | what is decided for all clients together; pure |
//! | [`render`] | from there to objects, by the generator that every driver uses; pure |
//! | `cluster`, `children`, `secrets` | what is seen, kept current by watches |
//! | `attachments` | what is asked for where a watch that is behind would do harm |
//! | `driver` | reconciles what clients share: CSIDriver, classes, controller |
//! | `client` | reconciles a WekaClient: its containers and its status |
//! | `container` | reconciles a WekaContainer: its pod, its CSI node pod, labels of its node |
//! | `context`, `run` | what all of them need, and which change is work for whom |
//! | `rules` | what the operator must be allowed for this |
//!
//! A driver belongs to no single client: its objects carry its name and are wanted as long as one client claims it.

mod attachments;
mod children;
mod client;
mod cluster;
mod conditions;
mod container;
mod context;
mod driver;
mod join;
pub mod names;
pub mod nodes;
mod object;
pub mod plan;
mod problem;
pub mod render;
mod rules;
mod run;
mod secrets;

pub use problem::{Problem, Reason};
pub use rules::operator_rules;
pub use run::run;
