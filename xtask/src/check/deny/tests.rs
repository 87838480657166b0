use serde_json::{Value, json};

use super::*;

const LISTS: &str = r#"
[graph]
targets = ["x86_64-unknown-linux-gnu"]
[licenses]
allow = ["MIT"]
[bans]
multiple-versions = "deny"
skip = [{ crate = "old@1.2", reason = "because" }]
"#;

fn package(name: &str, version: &str) -> Value {
    json!({
        "id": format!("{name} {version}"), "name": name, "version": version, "license": "MIT",
        "source": "registry+index", "manifest_path": "/Cargo.toml", "dependencies": [],
    })
}

/// What is found about these packages and the two that are always there.
fn found(lists: &str, more: &[Value]) -> Vec<String> {
    let mut packages = vec![package("old", "1.2.3"), package("old", "2.0.0")];
    packages.extend_from_slice(more);
    let nodes: Vec<Value> = packages.iter().map(|it| json!({"id": it["id"]})).collect();
    // Not built for our platforms.
    packages.push(package("elsewhere", "1.0.0"));
    packages.push(package("elsewhere", "2.0.0"));
    let metadata =
        json!({"packages": packages, "workspace_members": [], "resolve": {"nodes": nodes}});
    let metadata: Metadata = serde_json::from_value(metadata).unwrap();
    let found = Deny::parse(lists).unwrap().check(&metadata);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_on_the_lists_passes() {
    assert_eq!(
        found(LISTS, &[package("other", "0.1.0")]),
        Vec::<String>::new()
    );
}

#[test]
fn a_licence_that_is_not_on_the_list_is_found() {
    let (mut foreign, mut silent) = (package("a", "1.0.0"), package("b", "1.0.0"));
    foreign["license"] = json!("GPL-3.0");
    silent["license"] = Value::Null;
    assert_eq!(
        found(LISTS, &[foreign, silent]),
        [
            "a 1.0.0: its licence `GPL-3.0` is not in [licenses] of deny.toml: use another package",
            "b 1.0.0: it names no licence: use another package",
        ]
    );
}

#[test]
fn a_second_version_is_found_unless_its_reason_is_named() {
    let two = [package("new", "0.1.0"), package("new", "0.2.0")];
    let sentence = "new: versions 0.1.0 and 0.2.0 are built: agree on one, or name the reason in [bans] of deny.toml";
    assert_eq!(found(LISTS, &two), [sentence]);
    let skip = LISTS.replace(
        "skip = [",
        "skip = [{ crate = \"new@0.1\", reason = \"x\" }, ",
    );
    assert_eq!(found(&skip, &two), Vec::<String>::new());
    let third = [&two[..], &[package("new", "0.10.0")]].concat();
    assert_eq!(found(&skip, &third).len(), 1, "0.10 is not 0.1");
}

#[test]
fn a_reason_that_is_missing_or_no_longer_needed_is_found() {
    let empty = LISTS.replace("because", " ");
    assert_eq!(
        found(&empty, &[]),
        ["deny.toml: `old@1.2` in [bans] has no reason: write one"]
    );
    let stale = LISTS.replace(
        "skip = [",
        "skip = [{ crate = \"gone@1\", reason = \"x\" }, ",
    );
    assert_eq!(
        found(&stale, &[]),
        ["deny.toml: `gone@1` in [bans] is not built beside another version: remove it"]
    );
}

#[test]
fn a_package_from_elsewhere_is_found() {
    let mut foreign = package("fork", "1.0.0");
    foreign["source"] = json!("git+somewhere");
    let sentence = "fork 1.0.0: it comes from `git+somewhere`, not from the registry of all others: take it from there";
    assert_eq!(found(LISTS, &[foreign]), [sentence]);
    let mut own = package("own", "1.0.0");
    own["source"] = Value::Null;
    assert_eq!(found(LISTS, &[own]), Vec::<String>::new());
}
