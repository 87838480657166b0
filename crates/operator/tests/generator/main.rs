//! The generator: what it makes of an instance, reviewed as an API.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod golden;
mod properties;
mod server;
mod weka;

use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::valid::Ports;
use stowage_operator::driver::{Facts, Object, ValidDriver, build};
use stowage_operator::driver_deployment::validate::validate;

/// The cases of `tests/golden`, each with the operator's configuration and the secrets that classes and volumes name.
const CASES: [Case; 6] = [
    Case::new("seed-builtin"),
    Case::new("seed-upstream"),
    Case::new("every-node"),
    Case::new("node-only"),
    Case {
        config: "{infrastructureNodeSelector: {role: infra}, imagePullSecrets: [site], registryPrefix: mirror.example}",
        secrets: &[
            ("array", "array"),
            ("backup", "snapshots"),
            ("array", "array-old"),
        ],
        first_port: 9812,
        ..Case::new("two-replicas")
    },
    Case {
        is_openshift: true,
        ..Case::new("tuned")
    },
];

struct Case {
    name: &'static str,
    config: &'static str,
    secrets: &'static [(&'static str, &'static str)],
    first_port: u16,
    is_openshift: bool,
}

impl Case {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            config: "{}",
            secrets: &[],
            first_port: Ports::FIRST,
            is_openshift: false,
        }
    }

    fn instance(&self) -> CSIDriverDeployment {
        let path = golden::directory().join(self.name).join("instance.yaml");
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn driver(&self) -> ValidDriver {
        let config = OperatorConfig::parse(self.config).unwrap();
        let ports = Ports::starting_at(self.first_port);
        validate(&self.instance(), &config, ports).unwrap()
    }

    fn facts(&self) -> Facts {
        Facts {
            secrets: self.secrets.iter().copied().collect(),
            has_snapshots: true,
            has_security_constraints: self.is_openshift,
        }
    }

    fn objects(&self) -> Vec<Object> {
        build(&self.driver(), &self.facts())
    }
}
