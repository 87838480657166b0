//! Room that was promised to volumes since their array last told how much it has.
//!
//! What is known of an array is as old as the last look at it. Whoever chooses one meanwhile takes off what others were
//! promised: from the choice to the first look that began after the volume was there. An array that refused a volume for lack of
//! room gets none as large until it has told again, and one that cannot be asked gets none at all.
//!
//! Nothing here outlives the process. Whoever comes after it knows from the objects what was chosen and not made, looks at
//! every array first thing, and is told by the array where that was not enough.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::array::step::Trouble;
use crate::rest::ApiError;

/// Room that was promised, by the names of volumes, and what arrays refused.
#[derive(Default)]
pub struct Reserved(Mutex<Promises>);

/// What is promised at one moment.
#[derive(Debug, Default)]
pub struct Promises {
    volumes: HashMap<String, Promise>,
    refused: HashMap<String, Refused>,
}

#[derive(Debug)]
struct Promise {
    array: String,
    gigabytes: f64,
    /// The array has made it.
    is_made: bool,
}

/// What an array does not take until it has told again.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// Volumes of so many GB, or more.
    pub gigabytes: f64,
    /// Why, for people: what they read before it is the name of the array.
    pub reason: String,
}

impl Refused {
    /// It has no room for so much.
    pub fn no_room(gigabytes: u64, error: &ApiError) -> Self {
        Self {
            gigabytes: in_gb(gigabytes),
            reason: format!("it just refused {gigabytes} GB: {error}"),
        }
    }

    /// It cannot be asked.
    pub fn anything(error: &Trouble) -> Self {
        Self {
            gigabytes: 0.0,
            reason: format!("it just failed: {error}"),
        }
    }
}

impl Promises {
    /// What was promised of an array: names of volumes, and GB.
    pub fn of<'a>(&'a self, array: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let volumes = self.volumes.iter();
        let here = volumes.filter(move |(_, promise)| promise.array == array);
        here.map(|(volume, promise)| (volume.as_str(), promise.gigabytes))
    }

    /// Whether a volume was promised room anywhere.
    pub fn has(&self, volume: &str) -> bool {
        self.volumes.contains_key(volume)
    }

    /// What an array refused since it last told how much room it has: the smallest.
    pub fn refused(&self, array: &str) -> Option<&Refused> {
        self.refused.get(array)
    }
}

impl Reserved {
    /// Chooses an array by what is promised, and promises the volume its room there before anybody else chooses.
    pub fn choose<E>(
        &self,
        volume: &str,
        gigabytes: u64,
        choose: impl FnOnce(&Promises) -> Result<String, E>,
    ) -> Result<String, E> {
        let mut promises = self.0.lock();
        // It is chosen for anew.
        promises.volumes.remove(volume);
        let array = choose(&promises)?;
        let promise = Promise {
            array: array.clone(),
            gigabytes: in_gb(gigabytes),
            is_made: false,
        };
        promises.volumes.insert(volume.to_owned(), promise);
        Ok(array)
    }

    /// An array has made a volume: the next look tells of room without it, although the object does not say so yet.
    pub fn made(&self, volume: &str) {
        if let Some(promise) = self.0.lock().volumes.get_mut(volume) {
            promise.is_made = true;
        }
    }

    /// A volume needs no room, or has it and shows that itself. Called twice: nothing is promised to it.
    pub fn release(&self, volume: &str) {
        self.0.lock().volumes.remove(volume);
    }

    /// An array does not take this.
    pub fn refuse(&self, array: &str, refused: Refused) {
        let mut promises = self.0.lock();
        let known = promises.refused.get(array);
        if known.is_none_or(|known| refused.gigabytes <= known.gigabytes) {
            promises.refused.insert(array.to_owned(), refused);
        }
    }

    /// The volumes with a promise of an array that need none once it has told again: it is asked after this.
    pub fn settled(&self, array: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let promises = self.0.lock();
        let here = promises.volumes.iter();
        let here = here.filter(|(_, promise)| promise.array == array);
        let there = here.filter(|(volume, promise)| promise.is_made || is_there(volume));
        there.map(|(volume, _)| volume.clone()).collect()
    }

    /// An array has told how much room it has; `settled` is in that.
    pub fn told(&self, array: &str, settled: &[String]) {
        let mut promises = self.0.lock();
        promises.refused.remove(array);
        for volume in settled {
            let is_here = |promise: &Promise| promise.array == array;
            if promises.volumes.get(volume).is_some_and(is_here) {
                promises.volumes.remove(volume);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "no volume has 2^52 GB")]
fn in_gb(gigabytes: u64) -> f64 {
    gigabytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GB that are promised of the arrays `a` and `b`.
    fn promised(reserved: &Reserved) -> String {
        let promises = reserved.0.lock();
        let [a, b] = ["a", "b"].map(|array| -> f64 {
            let volumes = promises.of(array);
            volumes.fold(0.0, |sum, (_, gigabytes)| sum + gigabytes)
        });
        format!("{a} and {b}")
    }

    fn choose(reserved: &Reserved, volume: &str, array: &str, gigabytes: u64) {
        let chosen = reserved.choose(volume, gigabytes, |_| Ok::<_, ()>(array.to_owned()));
        assert_eq!(chosen.as_deref(), Ok(array));
    }

    #[test]
    fn room_is_promised_until_the_array_has_told_after_the_volume_was_there() {
        let reserved = Reserved::default();
        choose(&reserved, "u", "a", 60);
        choose(&reserved, "v", "a", 30);
        choose(&reserved, "w", "b", 10);
        assert_eq!(promised(&reserved), "90 and 10");
        // When the array was asked `u` was there; when it answered `v` was, too, but who knows whether that is in it.
        let settled = reserved.settled("a", |volume| volume == "u");
        assert_eq!(settled, ["u"]);
        reserved.told("a", &settled);
        assert_eq!(promised(&reserved), "30 and 10");
        // Another array was chosen meanwhile.
        let settled = reserved.settled("a", |_| true);
        choose(&reserved, "v", "b", 30);
        reserved.told("a", &settled);
        assert_eq!(promised(&reserved), "0 and 40");
        reserved.release("v");
        assert_eq!(promised(&reserved), "0 and 10");
        // Made before the next look began, and the object does not say so yet.
        choose(&reserved, "x", "a", 20);
        assert!(reserved.settled("a", |_| false).is_empty());
        reserved.made("x");
        assert_eq!(reserved.settled("a", |_| false), ["x"]);
        reserved.release("x");
        let refused = reserved.choose("w", 10, |promises| {
            assert!(
                !promises.has("w"),
                "its own promise does not stand in its way"
            );
            Err::<String, _>(())
        });
        assert_eq!(
            (refused, promised(&reserved)),
            (Err(()), "0 and 0".to_owned())
        );
    }

    #[test]
    fn the_smallest_that_was_refused_counts_until_the_array_has_told() {
        let reserved = Reserved::default();
        for (gigabytes, reason) in [(60.0, "first"), (80.0, "larger"), (50.0, "smaller")] {
            let reason = reason.to_owned();
            reserved.refuse("a", Refused { gigabytes, reason });
        }
        let refused = |array| reserved.0.lock().refused(array).cloned();
        assert_eq!(
            refused("a").map(|it| (it.gigabytes, it.reason)),
            Some((50.0, "smaller".to_owned()))
        );
        assert_eq!(refused("b"), None);
        reserved.told("a", &[]);
        assert_eq!(refused("a"), None);
    }
}
