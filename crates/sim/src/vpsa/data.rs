//! The ports for data.

use std::io;
use std::sync::Arc;

use super::Options;
use super::control::server::Session;
use super::core::Core;
use crate::endpoints::EndpointError;

/// The ports for data.
#[derive(Debug)]
pub struct DataPlane {
    _core: Arc<Core>,
}

impl DataPlane {
    /// Opens them.
    pub async fn start(core: Arc<Core>, _options: &Options) -> Result<Self, EndpointError> {
        Ok(Self { _core: core })
    }

    /// Closes them.
    pub fn stop(&self) {}

    /// Opens or closes them.
    pub async fn set_up(&self, _up: bool) -> io::Result<()> {
        Ok(())
    }

    /// Ends all sessions.
    pub fn drop_sessions(&self) {}

    /// Who uses data.
    pub fn sessions(&self) -> Vec<Session> {
        Vec::new()
    }
}
