//! Whether this driver is being uninstalled.

use stowage_api::driver_deployment::UNINSTALLING_ANNOTATION;
use stowage_kubernetes::store::Cached;

use super::wire::WireCsiDriver;

/// The mark of a driver that is being uninstalled, on its CSIDriver object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uninstalling {
    driver: String,
}

impl Uninstalling {
    /// Reads the mark. `None`: it is not there, or another driver's.
    pub(crate) fn read(wire: WireCsiDriver, driver: &str) -> Option<Self> {
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let name = wire.metadata.name.filter(|name| name == driver)?;
        let is_marked = annotations.contains_key(UNINSTALLING_ANNOTATION);
        is_marked.then_some(Self { driver: name })
    }
}

impl Cached for Uninstalling {
    fn key(&self) -> &str {
        &self.driver
    }
}
