//! Classes of a Weka driver, where the volumes of claims are, and what is said of them.

use devcluster::testing::Namespace;
use stowage_tests::{eventually, eventually_or, get, text};

use super::weka_array::Driver;

/// Who needs a secret: to make volumes, to grow them, to mount them.
pub const ROLES: [&str; 3] = ["provisioner", "controller-expand", "node-publish"];

/// A class for volumes on a filesystem, with a secret for each role; none is the model without API. It is called like the
/// namespace, with `word` behind.
pub fn class(
    namespace: &Namespace,
    driver: &Driver,
    word: &str,
    filesystem: &str,
    secrets: Option<[&str; 3]>,
) -> String {
    let name = format!("{}-{word}", namespace.name());
    let secrets = secrets.iter().flatten().zip(ROLES).map(|(secret, role)| {
        let key = format!("csi.storage.k8s.io/{role}-secret");
        format!(
            "  {key}-name: {secret}\n  {key}-namespace: {}\n",
            driver.name
        )
    });
    let manifest = format!(
        "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}}}
provisioner: {}
allowVolumeExpansion: true
parameters:
  volumeType: dir/v1
  filesystemName: {filesystem}
{}",
        driver.provisioner,
        secrets.collect::<String>()
    );
    namespace.apply(&manifest).unwrap();
    name
}

/// The directory of a claim's volume in its filesystem.
pub fn directory(namespace: &Namespace, claim: &str) -> String {
    eventually(&format!("claim {claim} is bound"), || {
        let claim = get(namespace, "pvc", claim)?;
        let volume = get(namespace, "pv", text(&claim["spec"]["volumeName"]))?;
        let handle = text(&volume["spec"]["csi"]["volumeHandle"]).to_owned();
        let (_, directory) = handle.strip_prefix("dir/v1/")?.split_once('/')?;
        Some(directory.to_owned())
    })
}

/// Waits until all words have been said of an object, as a reason or in a message, and returns everything that has.
pub fn wait_for_event(namespace: &Namespace, about: &str, words: &[&str]) -> String {
    let of = format!("--field-selector=involvedObject.name={about}");
    let lines = "jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}";
    let ask = || {
        let said = namespace.kubectl(&["get", "events", &of, "-o", lines]);
        said.unwrap_or_default()
    };
    let what = format!("{about}: an Event with {words:?}");
    let look = || Some(ask()).filter(|said| words.iter().all(|word| said.contains(word)));
    eventually_or(&what, look, ask)
}

/// Deletes claims and classes.
pub fn remove(namespace: &Namespace, claims: &[&str], classes: &[&str]) {
    let delete = |kind: &str, names: &[&str]| {
        let words = [&["delete", kind, "--wait=false"], names].concat();
        namespace.kubectl(&words).unwrap();
    };
    delete("pvc", claims);
    delete("storageclass", classes);
}
