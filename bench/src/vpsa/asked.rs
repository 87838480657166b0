//! What arrays were asked, by their own count: a client cannot forget a request.

use std::collections::BTreeMap;
use std::fmt;

/// Requests by method and kind of path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked(BTreeMap<String, u64>);

impl Asked {
    /// All arrays together.
    pub fn of(counters: impl IntoIterator<Item = BTreeMap<String, u64>>) -> Self {
        let mut all = BTreeMap::new();
        for (kind, count) in counters.into_iter().flatten() {
            *all.entry(kind).or_default() += count;
        }
        Self(all)
    }

    /// What was asked after that.
    pub fn since(&self, before: &Self) -> Self {
        let new = self.0.iter().map(|(kind, count)| {
            let before = before.0.get(kind).copied().unwrap_or(0);
            (kind.clone(), count.saturating_sub(before))
        });
        Self(new.filter(|(_, count)| *count > 0).collect())
    }

    /// All of it.
    pub fn count(&self) -> usize {
        sum(self.0.values())
    }

    /// Those that make, delete or look at single volumes; arrays are looked at for other reasons, too.
    pub fn about_volumes(&self) -> usize {
        let about = self.0.iter().filter(|(kind, _)| {
            let path = kind.split(' ').nth(1).unwrap_or_default();
            path.starts_with("volumes") || path == "pools" || path.contains("recycle_bin")
        });
        sum(about.map(|(_, count)| count))
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> usize {
    usize::try_from(counts.sum::<u64>()).unwrap_or(usize::MAX)
}

impl fmt::Display for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(kind, count)| format!("{count} {kind}"));
        formatter.write_str(&shown.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_counted_and_told_apart() {
        let counters = |entries: &[(&str, u64)]| -> BTreeMap<String, u64> {
            let entries = entries.iter();
            entries
                .map(|(kind, count)| ((*kind).to_owned(), *count))
                .collect()
        };
        let before = Asked::of([counters(&[("POST volumes", 1), ("GET drives", 2)])]);
        let now = Asked::of([
            counters(&[("POST volumes", 3), ("GET drives", 3)]),
            counters(&[
                ("POST volumes", 1),
                ("GET pools/*/volumes_in_recycle_bin", 1),
            ]),
        ]);
        let new = now.since(&before);
        assert_eq!((new.count(), new.about_volumes()), (5, 4));
        assert_eq!(
            new.to_string(),
            "1 GET drives, 1 GET pools/*/volumes_in_recycle_bin, 3 POST volumes"
        );
    }
}
