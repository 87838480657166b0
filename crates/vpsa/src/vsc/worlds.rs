//! Worlds for tests of steps: an object and an array, in which every call may end in every way.

use std::fmt::Debug;

/// How many calls of a world may end badly: all ways of that many are tried.
const CALLS: u32 = 4;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Luck {
    /// It is done.
    Done,
    /// It is done, and we die before the answer.
    Lost,
    /// Nothing is done.
    Failed,
}

/// How calls end, one after the other; in the end all are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lucks(u32);

impl Lucks {
    /// Every way.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..3_u32.pow(CALLS)).map(Self)
    }

    fn next(&mut self) -> Luck {
        let luck = [Luck::Done, Luck::Lost, Luck::Failed][self.0 as usize % 3];
        self.0 /= 3;
        luck
    }
}

/// An object and an array.
pub trait World: Clone + Debug + PartialEq {
    /// One thing to do.
    type Step: Clone + Debug + PartialEq;

    /// What is to be done next; none if nothing is, or nobody is there any more.
    fn next(&self) -> Option<Self::Step>;

    /// Does it.
    fn act(&mut self, step: &Self::Step, luck: Luck);

    /// A look is over: what was learned in it is forgotten, and what the array was at is finished.
    fn rest(&mut self);

    /// Whether a look ends when the same is to be done twice.
    fn is_record(step: &Self::Step) -> bool;

    /// Whether it only asks: a call that changes nothing.
    fn asks(step: &Self::Step) -> bool;

    /// Whether a look goes on after this was not done, because that tells something, too.
    fn goes_on_without(_step: &Self::Step) -> bool {
        false
    }
}

/// One look, up to its end or to the first call that is not done.
fn look<W: World>(world: &mut W, lucks: &mut Lucks) {
    let mut last = None;
    for _ in 0..40 {
        let Some(step) = world.next() else {
            return world.rest();
        };
        if W::is_record(&step) && last.as_ref() == Some(&step) {
            return world.rest();
        }
        let luck = lucks.next();
        world.act(&step, luck);
        if luck != Luck::Done && !W::goes_on_without(&step) {
            return world.rest();
        }
        if !W::asks(&step) {
            last = Some(step);
        }
    }
    panic!("a look without an end: {world:?}");
}

/// Looks until everything that can go wrong went wrong, and a whole look changes nothing.
pub fn settle<W: World>(start: &W, mut lucks: Lucks) -> W {
    let mut world = start.clone();
    for _ in 0..30 {
        let before = (world.clone(), lucks);
        look(&mut world, &mut lucks);
        // Nothing was called, or nothing can fail any more.
        if (world.clone(), lucks) == before {
            return world;
        }
    }
    panic!("it does not settle: {world:?}, from {start:?}");
}
