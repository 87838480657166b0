//! Drivers that use simulated arrays: their manifests, with stand-ins for what the machine would have of the array.

use std::process::Command;

use crate::error::Result;
use crate::kubernetes::kubectl_program;
use crate::process::feed;

/// The driver of a manifest, changed by a JSON patch; other documents stay as they are. `more` are further operations of the
/// patch, separated by commas.
pub(crate) fn patched(manifest: &str, patch: &str, more: &str) -> Result<String> {
    let mut patch = patch.to_owned();
    if !more.is_empty() {
        let end = patch.rfind(']').unwrap_or(patch.len());
        patch.truncate(end);
        patch.push_str(&format!(", {more}]"));
    }
    let mut documents = Vec::new();
    for document in manifest.split("\n---\n") {
        if document.contains("kind: CSIDriverDeployment") {
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
