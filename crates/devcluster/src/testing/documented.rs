//! The commands of our own pages, as their readers type them.
//!
//! A fenced block of commands has the language `sh`, and above it a comment that says what becomes of it:
//!
//! | comment | |
//! |---|---|
//! | `<!-- run -->` | a test runs it, with the others of its page, in their order |
//! | `<!-- run until: COMMAND -->` | it goes on by itself; what follows waits until the command succeeds |
//! | `<!-- run by: FILE -->` | the test in that file does the same in its own way |
//! | `<!-- not run: REASON -->` | what it needs is not there |

mod commands;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub use self::commands::{Call, refusals};
use crate::error::{Doing, Result, refused};

/// What becomes of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A test runs it.
    Run,
    /// The same, in the background, until a command succeeds.
    RunUntil(String),
    /// A test of another kind does it.
    RunBy(Vec<String>),
    /// Nobody can, here.
    NotRun(String),
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The title of the part of the page that it is in.
    pub heading: String,
    /// The line of its first fence.
    pub line: usize,
    /// What follows the fence.
    pub language: String,
    /// What becomes of it, if a comment says so.
    pub fate: Option<Fate>,
    /// What is in it.
    pub text: String,
}

/// All blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut heading, mut before) = ("", "");
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            before = line.trim();
            if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
        let inside = inside.map(|(_, line)| line.get(indent..).unwrap_or_default());
        blocks.push(Block {
            heading: heading.to_owned(),
            line: number + 1,
            language: language.to_owned(),
            fate: fate(before),
            text: inside.map(|line| format!("{line}\n")).collect(),
        });
        before = "";
    }
    blocks
}

fn fate(comment: &str) -> Option<Fate> {
    let comment = comment.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    if comment == "run" {
        return Some(Fate::Run);
    }
    let (kind, rest) = comment.split_once(": ")?;
    match kind {
        "run until" => Some(Fate::RunUntil(rest.to_owned())),
        "run by" => Some(Fate::RunBy(
            rest.split(", ").map(ToOwned::to_owned).collect(),
        )),
        "not run" => Some(Fate::NotRun(rest.to_owned())),
        _ => None,
    }
}

/// A shell script of all blocks of a page that a test runs. Each command is printed before it runs; the first that fails ends it.
pub fn script(page: &Path) -> Result<String> {
    let text = fs::read_to_string(page).doing(|| format!("cannot read `{}`", page.display()))?;
    let mut script =
        String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n");
    let mut count = 0;
    for block in blocks(&text) {
        let title = format!(
            "{}:{}",
            page.file_name().unwrap_or_default().to_string_lossy(),
            block.line
        );
        match block.fate {
            Some(Fate::Run) => _ = writeln!(script, "echo '### {title}'\n{}", block.text),
            Some(Fate::RunUntil(condition)) => {
                _ = writeln!(
                    script,
                    "echo '### {title}'\n{{ {}\n}} & \nfor i in $(seq 300); do if {condition}; then break; fi; sleep 0.2; done\n{condition}\n",
                    block.text
                );
            }
            _ => continue,
        }
        count += 1;
    }
    if count == 0 {
        return refused(format!(
            "`{}` has no commands that a test runs",
            page.display()
        ));
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Title
<!-- run -->
```sh
echo one
```
1. In a list:
   <!-- run until: test -e two -->
   ```sh
   touch two
   ```
<!-- not run: needs an array -->
```sh
mount array
```
```yaml
a: b
```
";

    #[test]
    fn blocks_are_found_with_what_becomes_of_them() {
        let found = blocks(PAGE);
        let fates: Vec<_> = found.iter().map(|it| (it.line, it.fate.clone())).collect();
        assert_eq!(
            fates,
            [
                (3, Some(Fate::Run)),
                (8, Some(Fate::RunUntil("test -e two".to_owned()))),
                (12, Some(Fate::NotRun("needs an array".to_owned()))),
                (15, None),
            ]
        );
        assert_eq!(
            (&*found[1].heading, &*found[1].text),
            ("Title", "touch two\n")
        );
        assert_eq!(found[3].language, "yaml");
    }

    #[test]
    fn a_page_becomes_a_script() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("page.md");
        fs::write(&page, PAGE).unwrap();
        let script = script(&page).unwrap();
        assert!(
            script.contains("echo one\n") && !script.contains("mount array"),
            "{script}"
        );
        let mut bash = std::process::Command::new("bash");
        let said = crate::process::feed(bash.current_dir(directory.path()), &script).unwrap();
        assert_eq!(said, "### page.md:3\none\n### page.md:8\n");
        fs::write(&page, "nothing").unwrap();
        assert!(super::script(&page).is_err());
    }
}
