//! Drivers that use simulated arrays: their manifests, with stand-ins for what the machine would have of the array.

use std::process::Command;

use crate::error::Result;
use crate::kubernetes::kubectl_program;
use crate::process::feed;

/// What says that a document is a driver's, in YAML and in JSON.
const DRIVER: [&str; 2] = [
    "kind: CSIDriverDeployment",
    r#""kind":"CSIDriverDeployment""#,
];

/// The driver of a manifest, changed by a JSON patch; other documents stay as they are. `more` are further operations of the
/// patch, separated by commas.
pub(crate) fn patched(manifest: &str, patch: &str, more: &str) -> Result<String> {
    let patch = if more.is_empty() {
        patch.to_owned()
    } else {
        joined(patch, &format!("[{more}]"))
    };
    let mut documents = Vec::new();
    for document in manifest.split("\n---\n") {
        if DRIVER.iter().any(|it| document.contains(it)) {
            let mut kubectl = Command::new(kubectl_program());
            kubectl.args(["patch", "--local", "-f", "-", "-o", "yaml"]);
            kubectl.args(["--type=json", "-p", &patch]);
            documents.push(feed(&mut kubectl, document)?);
        } else {
            documents.push(document.to_owned());
        }
    }
    Ok(documents.join("\n---\n"))
}

/// Two JSON patches, one after the other.
pub(crate) fn joined(first: &str, second: &str) -> String {
    let first = first.trim_end().trim_end_matches(']');
    let second = second.trim_start().trim_start_matches('[');
    format!("{first}, {second}")
}
