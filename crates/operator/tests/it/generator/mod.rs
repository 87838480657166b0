//! The generator: what it makes of an instance, reviewed as an API.

mod golden;
mod properties;
mod server;
mod variants;
mod weka;

use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::valid::Ports;
use stowage_operator::driver::{Facts, Object, PodFacts, ValidDriver, build};
use stowage_operator::driver_deployment::validate::validate;
use stowage_operator::served::Versions;

/// The cases of `tests/golden`, each with the operator's configuration and the secrets that classes and volumes name.
const CASES: [Case; 8] = [
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
    Case {
        secrets: &[("storage", "array-login")],
        restart_hash: Some("0011223344556677"),
        mounts_key_hash: Some("2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"),
        ..Case::new("additions")
    },
    Case::new("node-variants"),
];

struct Case {
    name: &'static str,
    config: &'static str,
    secrets: &'static [(&'static str, &'static str)],
    first_port: u16,
    is_openshift: bool,
    restart_hash: Option<&'static str>,
    mounts_key_hash: Option<&'static str>,
}

impl Case {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            config: "{}",
            secrets: &[],
            first_port: Ports::FIRST,
            is_openshift: false,
            restart_hash: None,
            mounts_key_hash: None,
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
            versions: Versions::NEWEST,
            has_security_constraints: self.is_openshift,
            pods: PodFacts {
                restart_hash: self.restart_hash.map(str::to_owned),
                mounts_key_hash: self.mounts_key_hash.map(str::to_owned),
            },
        }
    }

    fn objects(&self) -> Vec<Object> {
        build(&self.driver(), &self.facts())
    }
}
