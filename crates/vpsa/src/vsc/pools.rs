//! The pools of arrays, as each array last told them: whoever makes a volume need not ask for them again.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::rest::wire::Pool;

/// The pools of arrays, by the names of their objects.
#[derive(Default)]
pub struct Pools(Mutex<HashMap<String, Vec<Pool>>>);

impl Pools {
    /// An array has told its pools.
    pub fn learn(&self, array: &str, pools: &[Pool]) {
        self.0.lock().insert(array.to_owned(), pools.to_vec());
    }

    /// What an array last told.
    pub fn known(&self, array: &str) -> Option<Vec<Pool>> {
        self.0.lock().get(array).cloned()
    }

    /// What an array told may not be so any more. Called twice: nothing is known.
    pub fn forget(&self, array: &str) {
        self.0.lock().remove(array);
    }
}
