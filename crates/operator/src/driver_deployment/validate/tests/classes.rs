use serde_json::json;

use super::{check, refused, with};

#[test]
fn only_one_storage_class_is_the_default() {
    let class = |name: &str, default| json!({"metadata": {"name": name}, "default": default});
    let one = json!([class("a", true), class("b", false)]);
    assert_eq!(
        check(&with("/spec/storageClassTemplates", one))
            .unwrap()
            .classes
            .storage
            .len(),
        2
    );
    let two = json!([class("a", true), class("b", true)]);
    refused(
        &with("/spec/storageClassTemplates", two.clone()),
        &[
            r#"spec.storageClassTemplates: Invalid value: "true": multiple default storage classes are not supported: a, b"#,
        ],
    );
    refused(
        &with("/spec/volumeSnapshotClassTemplates", two),
        &[
            r#"spec.volumeSnapshotClassTemplates: Invalid value: "true": multiple default volume snapshot classes are not supported: a, b"#,
        ],
    );
}

#[test]
fn classes_are_checked_one_by_one() {
    let classes = json!([
        {},
        {"metadata": {"name": "Big"}},
        {"metadata": {"name": "a"}, "reclaimPolicy": "Recycle", "volumeBindingMode": "Late", "updatePolicy": "Maybe"},
        {"metadata": {"name": "a", "namespace": "x", "creationTimestamp": null}, "provisioner": "other"},
        {"metadata": {
            "name": "b",
            "labels": {"stowage.dev/owner-uid": "me"},
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        }},
    ]);
    refused(
        &with("/spec/storageClassTemplates", classes),
        &[
            "spec.storageClassTemplates[0].metadata.name: Required value: a class needs a name",
            "spec.storageClassTemplates[1].metadata.name: Invalid value: \"Big\": must consist of lower case \
             alphanumeric characters, '-' or '.', must start and end with an alphanumeric character, and must have at \
             most 253 characters",
            r#"spec.storageClassTemplates[2].updatePolicy: Unsupported value: "Maybe": supported values: "Recreate", "Report""#,
            r#"spec.storageClassTemplates[2].reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain""#,
            r#"spec.storageClassTemplates[2].volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer""#,
            "spec.storageClassTemplates[3].provisioner: Forbidden: unknown field",
            "spec.storageClassTemplates[3].metadata.namespace: Forbidden: unknown field",
            "spec.storageClassTemplates[4].metadata.labels[stowage.dev/owner-uid]: Forbidden: is set by the operator",
            "spec.storageClassTemplates[4].metadata.annotations[storageclass.kubernetes.io/is-default-class]: \
             Forbidden: use the field `default`",
            r#"spec.storageClassTemplates[3].metadata.name: Duplicate value: "a""#,
        ],
    );
}
