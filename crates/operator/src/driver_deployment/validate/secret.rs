//! Secrets that the driver reads as files.

use stowage_api::driver_deployment::CSIDriverDeploymentSpec;

use super::field::Errors;
use super::name::is_subdomain;
use super::path::is_clean;
use crate::driver::valid::DriverSecret;

/// The secrets; every rule that is broken is reported.
pub(super) fn driver_secrets(
    errors: &mut Errors,
    spec: &CSIDriverDeploymentSpec,
) -> Vec<DriverSecret> {
    let mut secrets: Vec<DriverSecret> = Vec::new();
    for (number, secret) in spec.driver_secrets.iter().flatten().enumerate() {
        let path = format!("spec.driverSecrets[{number}]");
        errors.unknown(&path, &secret.unknown);
        if !is_subdomain(&secret.secret_name) {
            let detail = "must be the name of a Secret in the namespace of this resource";
            errors.invalid(
                format!("{path}.secretName"),
                secret.secret_name.as_str(),
                detail,
            );
        }
        let place = secret.mount_path.trim_end_matches('/');
        if place.is_empty() || !is_clean(place) {
            let detail = "must be an absolute path without `.`, `..` and `:`, and not `/`";
            errors.invalid(
                format!("{path}.mountPath"),
                secret.mount_path.as_str(),
                detail,
            );
        } else if secrets.iter().any(|other| other.path == place) {
            errors.duplicate(format!("{path}.mountPath"), place);
        }
        secrets.push(DriverSecret {
            name: secret.secret_name.clone(),
            path: place.to_owned(),
            is_optional: secret.optional.unwrap_or(false),
        });
    }
    secrets
}
