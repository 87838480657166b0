//! What pods tolerate.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether a toleration covers a taint, as the scheduler sees it.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = taint.value.clone().unwrap_or_default();
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || (key.is_empty() && exists))
        && (exists || text(&toleration.value) == value)
}
