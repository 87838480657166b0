//! Our Helm charts without Helm: rendered by Go's template language and the functions of Helm and sprig that they use, checked
//! against their schema, and put on a cluster in Helm's order.
//!
//! What it does not know is an error, never an empty string: an unknown function, a value that is not there, a keyword of a schema,
//! a hook that Helm does not have.
//!
//! - [`chart`]: a chart as it lies in a directory, with the charts that it brings along.
//! - [`values`]: defaults, a person's own values over them, `--set`.
//! - [`schema`]: what values may be.
//! - [`comments`]: the schema and the table of values, from the comments in `values.yaml`.
//! - [`render`]: templates to text; `functions` are what they may call.
//! - [`manifest`]: text to objects, hooks apart, in Helm's order.
//! - [`release`]: install, upgrade, roll back and uninstall by kubectl.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs kubectl for people and tests, and is not async"
)]

pub mod chart;
pub mod comments;
mod error;
mod functions;
pub mod manifest;
pub mod release;
pub mod render;
pub mod schema;
mod value;
pub mod values;
mod yaml;

pub use error::Error;

/// Writes a value as YAML.
pub fn to_yaml(value: &serde_json::Value) -> Result<String, Error> {
    yaml::write(value).map_err(Error::Refused)
}

/// Reads one document of YAML.
pub fn from_yaml(text: &str) -> Result<serde_json::Value, Error> {
    yaml::read(text).map_err(Error::Refused)
}
