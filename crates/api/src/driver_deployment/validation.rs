//! What fields of a CSIDriverDeployment say together, for servers that can check it when it is written (CEL, Kubernetes 1.30): a
//! manifest of its own, which older servers never see.
//!
//! A policy and not rules in the definition: one definition serves all servers, and whoever installs it again takes nothing
//! away. The operator checks all of it in any case, so a rule that cannot be evaluated keeps nobody from anything.

use serde_json::{Value, json};

use super::GROUP;

/// The name of the policy and of its binding.
pub const NAME: &str = "csidriverdeployments.stowage.dev";

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What must hold.
    pub expression: &'static str,
    /// What is wrong where it does not.
    pub message: &'static str,
}

/// Every rule.
pub const RULES: [Rule; 6] = [
    Rule {
        expression: "!object.spec.driverSocket.matches('^/[^/]*$')",
        message: "spec.driverSocket must not be in `/`: the whole directory of the socket is mounted, use one such as /run/csi",
    },
    Rule {
        expression: "variables.limit == null || (type(variables.limit) == int ? variables.limit > 0 : \
                     variables.limit.matches('^([1-9][0-9]?|100)%$'))",
        message: "spec.maxUnavailableNodes must be a number of nodes above 0, or a part of them from `1%` to `100%`",
    },
    Rule {
        expression: "variables.classes.all(one, variables.classes.exists_one(other, other.metadata.name == one.metadata.name))",
        message: "spec.storageClassTemplates must not have two classes of one name",
    },
    Rule {
        expression: "variables.classes.filter(it, has(it.default) && it.default == true).size() <= 1",
        message: "spec.storageClassTemplates: multiple default storage classes are not supported",
    },
    Rule {
        expression: "!(has(variables.sidecars.nodeDeployment) && variables.sidecars.nodeDeployment == true && \
                     has(object.spec.driverControllerTemplate) && object.spec.driverControllerTemplate != null)",
        message: "there is no controller pod with `sidecars.nodeDeployment: true`: remove it, or spec.driverControllerTemplate",
    },
    Rule {
        expression: "!(has(variables.sidecars.mode) && variables.sidecars.mode == 'Builtin' && \
                     has(object.spec.containerImages) && object.spec.containerImages.size() > 0)",
        message: "spec.containerImages: images of the Kubernetes project's sidecars need `sidecars.mode: Upstream`",
    },
];

/// What the rules look at: fields that may be absent or null.
fn variables() -> Value {
    let variable = |name: &str, field: &str, absent: &str| {
        let expression = format!("has({field}) && {field} != null ? {field} : {absent}");
        json!({"name": name, "expression": expression})
    };
    json!([
        variable("limit", "object.spec.maxUnavailableNodes", "null"),
        variable("classes", "object.spec.storageClassTemplates", "[]"),
        variable("sidecars", "object.spec.sidecars", "{}"),
    ])
}

/// The manifest: the policy, and what puts it into effect.
pub fn manifest() -> [Value; 2] {
    let rules = RULES.map(|it| json!({"expression": it.expression, "message": it.message}));
    let version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "failurePolicy": "Ignore",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["csidriverdeployments"],
                    "operations": ["CREATE", "UPDATE"],
                }]},
                // Whatever it says, one that goes must lose its finalizers.
                "matchConditions": [{
                    "name": "is-not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)",
                }],
                "variables": variables(),
                "validations": rules,
            },
        }),
        json!({
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        }),
    ]
}
