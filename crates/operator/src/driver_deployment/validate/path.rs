//! Paths that the driver shares with the kubelet and its sidecars.

use stowage_api::driver_deployment::CSIDriverDeploymentSpec;

use super::field::Errors;
use crate::config::OperatorConfig;
use crate::driver::valid::Paths;

/// Longest path of a UNIX socket: the kernel has 108 bytes for it, the last of which is zero.
const SOCKET: usize = 107;

const SOCKET_FIELD: &str = "spec.driverSocket";

/// The paths, unless the socket's own cannot be taken apart.
pub(super) fn paths(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
    config: &OperatorConfig,
) -> Option<Paths> {
    let root = kubelet_root(errors, spec, config);
    let (directory, file) = socket(errors, &spec.driver_socket)?;
    let paths = Paths {
        socket_directory: directory.to_owned(),
        socket_file: file.to_owned(),
        plugin_directory: format!("{root}/plugins/{}", directory_name(&spec.driver_name)),
        kubelet_root: root,
    };
    lengths(errors, spec, &paths);
    if paths.socket_directory == paths.kubelet_root {
        let detail = "must not be in the kubelet's directory, which is mounted as well: use another directory, such as /run/csi";
        errors.invalid(SOCKET_FIELD, spec.driver_socket.as_str(), detail);
    }
    Some(paths)
}

fn kubelet_root(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
    config: &OperatorConfig,
) -> String {
    let Some(root) = spec
        .kubelet_root_dir
        .as_deref()
        .filter(|root| !root.is_empty())
    else {
        return config.kubelet_root().to_owned();
    };
    let clean = root.trim_end_matches('/');
    if clean.is_empty() || !is_clean(clean) {
        let detail = "must be an absolute path without `.`, `..` and `:`, and not `/`";
        errors.invalid("spec.kubeletRootDir", root, detail);
    }
    clean.to_owned()
}

/// Directory and file of the socket. Every rule that is broken is reported.
fn socket<'a>(errors: &mut Errors, socket: &'a str) -> Option<(&'a str, &'a str)> {
    let mut wrong = |detail: &str| errors.invalid(SOCKET_FIELD, socket, detail);
    if socket.is_empty() {
        wrong("must be non-empty");
        return None;
    }
    if socket.len() > SOCKET {
        wrong("must have at most 107 bytes: the path of a UNIX socket cannot be longer");
    }
    if !socket.starts_with('/') {
        wrong("must be an absolute path");
        return None;
    }
    if !is_clean(socket) {
        wrong("must be a path without `.`, `..`, empty parts and `:`");
        return None;
    }
    match socket.rsplit_once('/') {
        Some(("", _)) | None => {
            wrong(
                "must not be in `/`: the whole directory of the socket is mounted, use one such as /run/csi",
            );
            None
        }
        parts => parts,
    }
}

/// Absolute, with no part that means another path, and usable as the path of a mount.
pub(super) fn is_clean(path: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..");
    !path.contains(':')
        && path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(is_name))
}

/// Sockets have other, often longer, paths on the node than in the driver's container.
fn lengths(errors: &mut Errors, spec: &CSIDriverDeploymentSpec, paths: &Paths) {
    let on_node = paths.socket_on_node();
    if on_node.len() > SOCKET {
        let detail = format!(
            "on nodes it is `{on_node}`, which is longer than the {SOCKET} bytes of a UNIX socket: \
             use a shorter file name or a shorter driver name"
        );
        errors.invalid(SOCKET_FIELD, spec.driver_socket.as_str(), detail);
    }
    let registration = format!(
        "{}/plugins_registry/{}-reg.sock",
        paths.kubelet_root, spec.driver_name
    );
    if registration.len() > SOCKET {
        let detail = format!(
            "the kubelet would look for it at `{registration}`, which is longer than the {SOCKET} bytes of a UNIX \
             socket: use a shorter name"
        );
        errors.invalid("spec.driverName", spec.driver_name.as_str(), detail);
    }
}

/// The driver's name as the name of a directory.
fn directory_name(driver: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    driver
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect()
}
