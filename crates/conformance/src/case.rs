//! What a case is: a name, what a driver must have for it, and a function.

use futures::future::BoxFuture;

use crate::capability::Need;
use crate::check::Checked;
use crate::scene::Scene;

/// What runs. It asks the scene for volumes, calls and paths; the scene removes afterwards what was made.
pub(crate) type Run = for<'a> fn(&'a mut Scene) -> BoxFuture<'a, Checked>;

/// Cases about one RPC or one subject.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// What all its cases need.
    pub(crate) needs: &'static [Need],
    pub(crate) cases: &'static [Case],
}

/// One promise of the specification.
pub(crate) struct Case {
    /// A sentence that is true of a good driver.
    pub(crate) name: &'static str,
    /// What this case needs beyond its group.
    pub(crate) needs: &'static [Need],
    /// It counts what the driver has or fills the node up: no other case may run at the same time.
    pub(crate) alone: bool,
    pub(crate) run: Run,
}

impl Case {
    pub(crate) const fn new(name: &'static str, run: Run) -> Self {
        Self {
            name,
            needs: &[],
            alone: false,
            run,
        }
    }

    pub(crate) const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    pub(crate) const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }
}
