//! Which sidecars run, from which images.

use std::collections::BTreeMap;

use stowage_api::driver_deployment::{
    CSIDriverDeploymentSpec, ContainerImages, SidecarContainer, Sidecars as Written,
};

use super::field::Errors;
use crate::config::OperatorConfig;
use crate::driver::valid::{
    Builtin, ControllerRole, SecretAccess, Sidecars, Tuning, Upstream, UpstreamContainer,
};
use crate::driver_deployment::image;

const PATH: &str = "spec.sidecars";
const ROLES: [(&str, ControllerRole); 4] = [
    ("Attacher", ControllerRole::Attacher),
    ("Provisioner", ControllerRole::Provisioner),
    ("Resizer", ControllerRole::Resizer),
    ("Snapshotter", ControllerRole::Snapshotter),
];

/// The sidecars and what they may read.
pub(super) struct Chosen {
    pub(super) sidecars: Sidecars,
    pub(super) log_level: Option<u8>,
    pub(super) secret_access: SecretAccess,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Builtin,
    Upstream,
}

pub(super) fn sidecars(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
    config: &OperatorConfig,
) -> Chosen {
    let written = spec.sidecars.clone().unwrap_or_default();
    errors.unknown(PATH, &written.unknown);
    let secret_access = errors.word(
        format!("{PATH}.secretAccess"),
        written.secret_access.as_deref(),
        &[
            ("Cluster", SecretAccess::Cluster),
            ("Named", SecretAccess::Named),
        ],
        SecretAccess::Named,
    );
    let images = images(errors, spec.container_images.as_ref());
    let by_images = if images.is_empty() {
        Mode::Builtin
    } else {
        Mode::Upstream
    };
    let mode = errors.word(
        format!("{PATH}.mode"),
        written.mode.as_deref(),
        &[("Builtin", Mode::Builtin), ("Upstream", Mode::Upstream)],
        by_images,
    );
    let sidecars = match mode {
        Mode::Builtin => {
            if !images.is_empty() {
                let detail =
                    "images of the Kubernetes project's sidecars need `sidecars.mode: Upstream`";
                errors.forbidden("spec.containerImages", detail);
            }
            Sidecars::Builtin(builtin(errors, spec, &written, config))
        }
        Mode::Upstream => Sidecars::Upstream(upstream(errors, &written, &images, config)),
    };
    Chosen {
        sidecars,
        log_level: log_level(errors, written.log_level),
        secret_access,
    }
}

fn log_level(errors: &mut Errors, written: Option<i32>) -> Option<u8> {
    let number = written?;
    let level = u8::try_from(number).ok().filter(|it| *it <= 10);
    if level.is_none() {
        errors.invalid(
            format!("{PATH}.logLevel"),
            number,
            "must be between 0 and 10",
        );
    }
    level
}

fn builtin(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
    written: &Written,
    config: &OperatorConfig,
) -> Builtin {
    if written.run.is_some() {
        let detail = "needs `sidecars.mode: Upstream`: the built-in sidecar asks the driver what it supports";
        errors.forbidden(format!("{PATH}.run"), detail);
    }
    let node_deployment = written.node_deployment.unwrap_or_default();
    if node_deployment && spec.driver_controller_template.is_some() {
        let detail = "there is no controller pod with `sidecars.nodeDeployment: true`: remove one of the two";
        errors.forbidden("spec.driverControllerTemplate", detail);
    }
    let default = &config.default_images.sidecar_image;
    let image = match written.image.as_deref() {
        Some("") => {
            errors.invalid(format!("{PATH}.image"), "", "must be non-empty");
            String::new()
        }
        Some(image) => image.to_owned(),
        None => config.image(default),
    };
    let mut tunings = tunings(errors, written, &["controller", "node"]);
    Builtin {
        image,
        node_deployment,
        controller: tunings.remove("controller").unwrap_or_default(),
        node: tunings.remove("node").unwrap_or_default(),
    }
}

fn upstream(
    errors: &mut Errors,
    written: &Written,
    images: &BTreeMap<&'static str, String>,
    config: &OperatorConfig,
) -> Upstream {
    if written.node_deployment == Some(true) {
        let detail = "needs the built-in sidecar (`sidecars.mode: Builtin`)";
        errors.forbidden(format!("{PATH}.nodeDeployment"), detail);
    }
    if written.image.is_some() {
        let detail = "is the image of the built-in sidecar: use `containerImages`, or `sidecars.mode: Builtin`";
        errors.forbidden(format!("{PATH}.image"), detail);
    }
    let roles = roles(errors, written);
    let known = [
        "attacher",
        "livenessProbe",
        "provisioner",
        "registrar",
        "resizer",
        "snapshotter",
    ];
    let mut tunings = tunings(errors, written, &known);
    let defaults = &config.default_images;
    let mut container = |name: &'static str, default: &str| UpstreamContainer {
        image: images
            .get(name)
            .cloned()
            .unwrap_or_else(|| config.image(default)),
        tuning: tunings.remove(name).unwrap_or_default(),
    };
    let controllers = ControllerRole::ALL
        .into_iter()
        .filter(|role| roles.contains(role))
        .map(|role| {
            let (name, default) = match role {
                ControllerRole::Provisioner => ("provisioner", &defaults.provisioner_image),
                ControllerRole::Attacher => ("attacher", &defaults.attacher_image),
                ControllerRole::Resizer => ("resizer", &defaults.resizer_image),
                ControllerRole::Snapshotter => ("snapshotter", &defaults.snapshotter_image),
            };
            (role, container(name, default))
        })
        .collect();
    Upstream {
        controllers,
        registrar: container("registrar", &defaults.driver_registrar_image),
        liveness_probe: container("livenessProbe", &defaults.liveness_probe_image),
    }
}

fn roles(errors: &mut Errors, written: &Written) -> Vec<ControllerRole> {
    let default = || vec![ControllerRole::Provisioner, ControllerRole::Attacher];
    let Some(words) = &written.run else {
        return default();
    };
    let mut roles = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let path = format!("{PATH}.run[{index}]");
        if words[..index].contains(word) {
            errors.duplicate(path, word.as_str());
        } else {
            let fallback = ControllerRole::Provisioner;
            roles.push(errors.word(path, Some(word), &ROLES, fallback));
        }
    }
    roles
}

/// Images that the instance names itself, by the name of their container.
fn images(errors: &mut Errors, images: Option<&ContainerImages>) -> BTreeMap<&'static str, String> {
    let Some(images) = images else {
        return BTreeMap::new();
    };
    errors.unknown("spec.containerImages", &images.unknown);
    let fields = [
        ("attacher", "attacherImage", &images.attacher_image),
        ("provisioner", "provisionerImage", &images.provisioner_image),
        (
            "registrar",
            "driverRegistrarImage",
            &images.driver_registrar_image,
        ),
        (
            "livenessProbe",
            "livenessProbeImage",
            &images.liveness_probe_image,
        ),
        ("resizer", "resizerImage", &images.resizer_image),
        ("snapshotter", "snapshotterImage", &images.snapshotter_image),
    ];
    let mut named = BTreeMap::new();
    for (container, field, image) in fields {
        let Some(image) = image else { continue };
        let path = format!("spec.containerImages.{field}");
        if image.is_empty() {
            errors.invalid(path, "", "must be non-empty");
        } else if let Some(reason) = image::outdated(image) {
            errors.invalid(path, image.as_str(), reason);
        }
        named.insert(container, image.clone());
    }
    named
}

fn tunings(
    errors: &mut Errors,
    written: &Written,
    known: &[&'static str],
) -> BTreeMap<String, Tuning> {
    let mut tunings = BTreeMap::new();
    for (name, container) in written.containers.iter().flatten() {
        let path = format!("{PATH}.containers[{name}]");
        let words: Vec<_> = known.iter().map(|known| (*known, ())).collect();
        errors.word(format!("{PATH}.containers"), Some(name), &words, ());
        errors.unknown(&path, &container.unknown);
        tunings.insert(name.clone(), tuning(container));
    }
    tunings
}

fn tuning(container: &SidecarContainer) -> Tuning {
    Tuning {
        resources: container.resources.clone(),
        extra_args: container.extra_args.clone().unwrap_or_default(),
    }
}
