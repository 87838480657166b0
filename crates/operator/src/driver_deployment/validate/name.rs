//! Names and their limits.

use super::field::Errors;

/// Longest value of a label.
pub(super) const LABEL_VALUE: usize = 63;
/// Longest name of a driver.
const DRIVER: usize = 63;
/// Longest name of an object.
const OBJECT: usize = 253;

/// The 2018 expression, without its slip that let a name end in `-`.
const DRIVER_EXPRESSION: &str = "^[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?$";

pub(super) fn driver(errors: &mut Errors, name: &str) {
    let path = "spec.driverName";
    if name.chars().count() > DRIVER {
        errors.too_long(path, DRIVER, "");
    }
    if !fits_driver_expression(name) {
        let detail = format!(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'org.acme.csi-hostpath', regex used for validation is '{DRIVER_EXPRESSION}')"
        );
        errors.invalid(path, name, detail);
    }
}

/// A key of labels and taints.
pub(super) fn is_qualified(key: &str) -> bool {
    // What comes after the slash has the form of a driver's name.
    match key.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && fits_driver_expression(name),
        None => fits_driver_expression(key),
    }
}

/// A value of a label that says something.
pub(super) fn is_label_value(value: &str) -> bool {
    fits_driver_expression(value)
}

fn fits_driver_expression(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= DRIVER
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Whether a CSIDriver object can have the name of this driver: drivers may be called what objects may not.
pub(super) fn csi_driver_object(name: &str) -> Result<(), String> {
    if is_subdomain(name) {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not a valid name of a CSIDriver object: use lower-case letters, digits, '-' and '.' only. Without \
         the object the driver runs, its volumes are attached, pod information is not passed to it and its storage \
         capacity is not tracked"
    ))
}

/// A name of an object, as most kinds have it.
pub fn is_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(is_alphanumeric)
            && bytes.last().is_some_and(is_alphanumeric)
            && bytes
                .iter()
                .all(|byte| is_alphanumeric(byte) || *byte == b'-')
    };
    name.len() <= OBJECT && name.split('.').all(is_part)
}
