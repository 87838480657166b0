//! Names that occur on thousands of nodes, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

/// Numbers for names. A name keeps its number for good: there are no more of them than drivers.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

/// A set of names, by their numbers, in order.
pub(super) type Numbers = Box<[u32]>;

impl Names {
    /// The names as a set.
    pub(super) fn numbers<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Numbers {
        let mut numbers: Vec<u32> = names.map(|name| self.number(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_boxed_slice()
    }

    /// The number of a name.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name: Arc<str> = name.into();
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    /// The number of a name that has one.
    pub(super) fn known_number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Whether a set has a name.
    pub(super) fn is_in(&self, name: &str, set: &[u32]) -> bool {
        let number = self.known_number(name);
        number.is_some_and(|number| set.binary_search(&number).is_ok())
    }

    /// The names of a set.
    pub(super) fn of<'a>(&'a self, set: &'a [u32]) -> impl Iterator<Item = &'a str> {
        let name = |number: &u32| self.names.get(*number as usize);
        set.iter().filter_map(name).map(|name| &**name)
    }

    /// The names that only one of two sets has.
    pub(super) fn differing<'a>(
        &'a self,
        one: &'a [u32],
        other: &'a [u32],
    ) -> impl Iterator<Item = &'a str> {
        let without = |all: &'a [u32], others: &'a [u32]| {
            let is_new = move |it: &&'a u32| others.binary_search(it).is_err();
            all.iter().filter(is_new)
        };
        let all = without(one, other).chain(without(other, one));
        all.flat_map(|number| self.of(std::slice::from_ref(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_are_found_again_and_told_apart() {
        let mut names = Names::default();
        let one = names.numbers(["c", "a", "c"].into_iter());
        let other = names.numbers(["b", "a"].into_iter());
        assert!(names.is_in("a", &one) && names.is_in("a", &other));
        assert!(!names.is_in("b", &one) && !names.is_in("never", &one));
        let sorted = |mut all: Vec<&str>| {
            all.sort_unstable();
            all.join(" ")
        };
        assert_eq!(sorted(names.of(&one).collect()), "a c");
        assert_eq!(sorted(names.differing(&one, &other).collect()), "b c");
        assert_eq!(names.differing(&one, &one).count(), 0);
    }
}
