//! What is not written, because of what could not be written before it. Pure.

use std::collections::BTreeSet;

use super::WriteError;
use crate::driver::{Kind, Object};

/// What could not be written.
#[derive(Default)]
pub struct Skipped<'a> {
    /// Accounts that are somebody else's.
    foreign: BTreeSet<&'a str>,
    /// Roles that are not as they should be.
    roles: BTreeSet<(Option<&'a str>, &'a str)>,
}

impl<'a> Skipped<'a> {
    /// Whether an object is not to be written.
    pub fn has(&self, object: &Object) -> bool {
        let role = (object.namespace.as_deref(), object.name.as_str());
        // A role that is not there cannot be granted, and its own problem says all there is to say.
        (object.kind.is_binding() && self.roles.contains(&role))
            // Somebody else's account gets no rights through us, and runs no pods of ours.
            || !self.foreign.is_disjoint(&object.accounts())
    }

    /// Takes in that an object could not be written.
    pub fn after(&mut self, object: &'a Object, error: &WriteError) {
        match (object.kind, error) {
            (Kind::ServiceAccount, WriteError::Collision(_)) => {
                self.foreign.insert(&object.name);
            }
            (Kind::Role | Kind::ClusterRole, _) => {
                self.roles
                    .insert((object.namespace.as_deref(), &object.name));
            }
            _ => {}
        }
    }

    /// Whether an account is somebody else's.
    pub fn is_foreign(&self, account: &str) -> bool {
        self.foreign.contains(account)
    }

    /// Whether it stays if it is there. Pods that run go on, with what an account that was ours once has left them.
    pub fn keeps(&self, object: &Object) -> bool {
        !object.kind.is_binding() || self.foreign.is_disjoint(&object.accounts())
    }
}
