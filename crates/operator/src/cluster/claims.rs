//! The drivers of claims, by the volumes that name them.
//!
//! Several volumes may name one claim: a volume that is kept goes on to name the claim that it was bound to, and so does one of
//! another driver that a new claim of that name has now. What is bound counts, and anything else only where nothing is.

use std::collections::HashMap;

use super::usage::Claim;

/// A volume that names a claim. Which one it is matters to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Its driver, by number.
    pub(super) driver: u32,
    /// Whether it is bound to the claim.
    pub(super) is_bound: bool,
}

/// The volumes of claims.
#[derive(Default)]
pub(super) struct Claims(HashMap<Claim, Vec<Volume>>);

impl Claims {
    /// A volume names a claim.
    pub(super) fn add(&mut self, claim: &Claim, volume: Volume) {
        // Nearly every claim has one.
        let one = || Vec::with_capacity(1);
        let volumes = self.0.entry(claim.clone()).or_insert_with(one);
        volumes.push(volume);
    }

    /// A volume no longer names a claim.
    pub(super) fn remove(&mut self, claim: &Claim, volume: Volume) {
        let Some(volumes) = self.0.get_mut(claim) else {
            return;
        };
        if let Some(place) = volumes.iter().position(|it| *it == volume) {
            volumes.swap_remove(place);
        }
        if volumes.is_empty() {
            self.0.remove(claim);
        }
    }

    /// Whether a volume that names a claim may be the one that pods get by it.
    pub(super) fn admits(&self, claim: &Claim, is_bound: bool) -> bool {
        is_bound || !self.volumes(claim).iter().any(|it| it.is_bound)
    }

    /// Whether a claim has a volume of a driver.
    pub(super) fn is_of(&self, claim: &Claim, driver: u32) -> bool {
        let of_driver = |it: &&Volume| it.driver == driver;
        let mut ours = self.volumes(claim).iter().filter(of_driver);
        ours.any(|it| self.admits(claim, it.is_bound))
    }

    fn volumes(&self, claim: &Claim) -> &[Volume] {
        self.0.get(claim).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(driver: u32, is_bound: bool) -> Volume {
        Volume { driver, is_bound }
    }

    #[test]
    fn what_is_bound_counts_and_anything_else_only_where_nothing_is() {
        let claim = ("n".to_owned(), "data".to_owned());
        let mut claims = Claims::default();
        let drivers = |claims: &Claims| [1, 2].map(|driver| claims.is_of(&claim, driver));
        claims.add(&claim, volume(1, false));
        assert_eq!(drivers(&claims), [true, false]);
        claims.add(&claim, volume(2, true));
        assert_eq!(drivers(&claims), [false, true]);
        // The one that is kept is seen last, or goes.
        claims.remove(&claim, volume(1, false));
        assert_eq!(drivers(&claims), [false, true]);
        claims.add(&claim, volume(1, false));
        assert_eq!(drivers(&claims), [false, true]);
        assert!(claims.admits(&claim, true) && !claims.admits(&claim, false));
        claims.remove(&claim, volume(2, true));
        assert_eq!(drivers(&claims), [true, false]);
        claims.remove(&claim, volume(1, false));
        assert_eq!(drivers(&claims), [false, false]);
        assert!(claims.0.is_empty());
    }
}
