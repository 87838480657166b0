use serde_json::{Value, json};

use super::{check, good, refused, set, template};

fn variant(name: &str, key: &str, value: &str) -> Value {
    json!({"name": name, "nodeLabel": {"key": key, "value": value}, "template": template()})
}

fn with(variants: &[Value]) -> Value {
    let mut instance = good();
    set(&mut instance, "/spec/nodeVariants", json!(variants));
    instance
}

#[test]
fn a_node_runs_the_pods_of_one_template() {
    let both = [variant("a", "x/kind", "1"), variant("b", "y/kind", "2")];
    let driver = check(&with(&both)).unwrap();
    let placed: Vec<_> = driver
        .node_workloads
        .iter()
        .map(|it| (it.name.as_str(), it.placement.elsewhere.len()))
        .collect();
    assert_eq!(
        placed,
        [
            ("hostpath-node", 2),
            ("hostpath-node-a", 0),
            ("hostpath-node-b", 1)
        ]
    );
    let second = &driver.node_workloads[2].placement;
    assert_eq!(second.node_selector["y/kind"], "2");
    assert_eq!(
        second.elsewhere,
        [("x/kind".to_owned(), "1".to_owned())],
        "of the first that fits"
    );
}

#[test]
fn variants_that_cannot_be_told_apart_are_refused() {
    let name = "must be 1 to 20 lower-case letters or digits, and not the word `node`";
    for wrong in ["", "a-b", "A", "node", "a23456789012345678901"] {
        let expected = format!("spec.nodeVariants[0].name: Invalid value: \"{wrong}\": {name}");
        refused(&with(&[variant(wrong, "kind", "1")]), &[&expected]);
    }
    refused(
        &with(&[variant("a", "kind", "1"), variant("a", "kind", "2")]),
        &[r#"spec.nodeVariants[1].name: Duplicate value: "a""#],
    );
    refused(
        &with(&[variant("a", "kind", "1"), variant("b", "kind", "1")]),
        &[r#"spec.nodeVariants[1].nodeLabel: Duplicate value: "kind=1""#],
    );
}

#[test]
fn a_variant_needs_a_label_and_a_template_that_fits_it() {
    refused(
        &with(&[variant("a", "", "a b")]),
        &[
            "spec.nodeVariants[0].nodeLabel.key: Invalid value: \"\": must be the key of a label, such as `example.com/kind`",
            "spec.nodeVariants[0].nodeLabel.value: Invalid value: \"a b\": must be the value of a label, up to 63 alphanumeric \
             characters, '-', '_' or '.'; write `true` in quotation marks",
        ],
    );
    let mut other = variant("a", "kind", "1");
    other["template"]["spec"]["nodeSelector"] = json!({"kind": "2"});
    refused(
        &with(&[other]),
        &[
            "spec.nodeVariants[0].template.spec.nodeSelector[kind]: Invalid value: \"2\": these pods run on nodes with `1`: remove \
           the label here",
        ],
    );
    let mut empty = variant("a", "kind", "1");
    empty["template"] = json!({});
    empty["more"] = json!(1);
    let errors = check(&with(&[empty])).unwrap_err().join("\n");
    for path in [
        "spec.nodeVariants[0].more",
        "spec.nodeVariants[0].template: ",
    ] {
        assert!(errors.contains(path), "{errors}");
    }
    let mut plain = variant("a", "kind", "1");
    plain["template"]["spec"]["containers"][0]["securityContext"] = json!(null);
    let errors = check(&with(&[plain])).unwrap_err().join("\n");
    assert!(
        errors.contains(
            "spec.nodeVariants[0].template.spec.containers[0].securityContext.privileged"
        ),
        "{errors}"
    );
}

#[test]
fn a_name_leaves_room_for_what_is_added_to_it() {
    let mut instance = with(&[variant("a2345678901234567890", "kind", "1")]);
    set(&mut instance, "/metadata/name", json!("b".repeat(38)));
    let errors = check(&instance).unwrap_err();
    assert!(
        errors[0].contains("-node-a2345678901234567890"),
        "{errors:?}"
    );
    set(&mut instance, "/metadata/name", json!("b".repeat(37)));
    check(&instance).unwrap();
}
