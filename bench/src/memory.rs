//! What memory a process costs.

use std::fmt;

use anyhow::Context;

use crate::cgroup::Version;
use crate::table::{Goal, Row, Table};

/// Memory in MB (of 1,000,000 bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// All but the pages of files that the kernel would drop first: what `kubectl top` shows and limits are compared with.
    pub working_set: f64,
    /// The part of it that no file is behind: what the process itself has asked for. The rest is the kernel's for it.
    pub anonymous: f64,
    /// Pages of files: the program. The kernel may drop them, and processes of one file share them.
    pub files: f64,
}

impl Memory {
    /// From the usage and the statistics of a cgroup.
    pub fn of(version: Version, usage: &str, stat: &str) -> anyhow::Result<Self> {
        let bytes = |text: &str| text.trim().parse::<u64>().context("not a number of bytes");
        let field = |name: &str| {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(key, _)| *key == name);
            bytes(
                found
                    .with_context(|| format!("memory.stat has no `{name}`"))?
                    .1,
            )
        };
        let [inactive_file, anonymous, files] = match version {
            Version::V1 => ["total_inactive_file", "total_rss", "total_cache"],
            Version::V2 => ["inactive_file", "anon", "file"],
        };
        Ok(Self {
            working_set: megabytes(bytes(usage)?.saturating_sub(field(inactive_file)?)),
            anonymous: megabytes(field(anonymous)?),
            files: megabytes(field(files)?),
        })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            working_set,
            anonymous,
            files,
        } = self;
        write!(
            f,
            "working set {working_set:.1} MB, of it {anonymous:.1} anonymous; {files:.1} MB of file pages"
        )
    }
}

/// What a process may have at the most, in MB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Most {
    pub working_set: Option<f64>,
    pub anonymous: Option<f64>,
}

impl Memory {
    /// Adds it to a table; `when` says whose it is, or when it was looked at.
    pub fn add_to(&self, table: &mut Table, when: &str, most: Most) {
        for (what, figure, most) in [
            ("working set, MB", self.working_set, most.working_set),
            ("of it anonymous", self.anonymous, most.anonymous),
            ("pages of files beside it", self.files, None),
        ] {
            let row = Row::new(format!("{when}: {what}"), figure);
            table.add(match most {
                Some(most) => row.goal(Goal::AtMost(most)),
                None => row,
            });
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "some megabytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_interfaces_are_read() {
        let v1 = "cache 1\nrss 2\ntotal_cache 20000000\ntotal_rss 2000000\ntotal_inactive_file 19000000\n";
        let v2 =
            "anon 2000000\nfile 20000000\nkernel 900000\ninactive_anon 7\ninactive_file 19000000\n";
        let expected = Memory {
            working_set: 4.0,
            anonymous: 2.0,
            files: 20.0,
        };
        assert_eq!(Memory::of(Version::V1, "23000000\n", v1).unwrap(), expected);
        assert_eq!(Memory::of(Version::V2, "23000000\n", v2).unwrap(), expected);
        assert!(Memory::of(Version::V2, "23000000\n", v1).is_err());
    }
}
