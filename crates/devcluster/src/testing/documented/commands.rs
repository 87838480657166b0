//! The command lines of a page, split into words as a shell does: enough to give them to the parser of the program they call.

use std::fs;
use std::iter::Peekable;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::str::Chars;

use super::blocks;
use crate::error::{Doing, Result};

/// Pages that people read, below the root of the project.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let guides = root.join("docs/guides");
    let found = fs::read_dir(&guides).doing(|| format!("cannot read `{}`", guides.display()))?;
    let mut pages: Vec<_> = found.flatten().map(|entry| entry.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|it| it == "md"));
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    pages.sort();
    Ok(pages)
}

/// How many commands of all pages call this program, and what `parse` has against each that it refuses.
pub fn refusals(
    root: &Path,
    program: &str,
    parse: impl Fn(&Call) -> std::result::Result<(), String>,
) -> Result<(usize, Vec<String>)> {
    let (mut count, mut refusals) = (0, Vec::new());
    for page in pages(root)? {
        let text =
            fs::read_to_string(&page).doing(|| format!("cannot read `{}`", page.display()))?;
        for call in calls(&text, program) {
            count += 1;
            if let Err(refusal) = parse(&call) {
                let (page, line) = (page.display(), call.line);
                let words = call.words.join(" ");
                refusals.push(format!("{page}:{line}: `{words}`\n{refusal}"));
            }
        }
    }
    Ok((count, refusals))
}

/// A command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The line of its block.
    pub line: usize,
    /// Variables of the environment that are set for it only.
    pub variables: Vec<(String, String)>,
    /// The program and its arguments.
    pub words: Vec<String>,
}

/// All commands of a page's blocks that call this program: also with variables before them, behind a prompt, or in a pipe. In
/// a block of what is printed, only lines with a prompt are commands.
fn calls(page: &str, program: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    for block in blocks(page) {
        let text = match block.language.as_str() {
            "" | "sh" => block.text,
            _ => typed(&block.text),
        };
        let found = split(&text);
        let found = found.into_iter().map(|words| call(block.line, words));
        let is_ours = |call: &Call| call.words.first().is_some_and(|word| word == program);
        calls.extend(found.filter(is_ours));
    }
    calls
}

fn typed(text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("$ "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Without the prompt, and without the variables before the program.
fn call(line: usize, words: Vec<String>) -> Call {
    let mut words = words.into_iter().skip_while(|word| word == "$").peekable();
    let mut variables = Vec::new();
    while let Some(variable) = words.peek().and_then(|word| variable(word)) {
        variables.push(variable);
        words.next();
    }
    Call {
        line,
        variables,
        words: words.collect(),
    }
}

fn variable(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|it| it.is_ascii_uppercase() || it == '_');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

/// The words of each command. What a shell would put in place of `$...` stays as it is written; where output goes is a command of its own.
fn split(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", "");
    let mut rest = text.chars().peekable();
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    while let Some(letter) = rest.next() {
        match letter {
            '#' if word.is_none() => while rest.next_if(|it| *it != '\n').is_some() {},
            '\'' | '"' => quoted(&mut rest, letter, word.get_or_insert_default()),
            '\\' => word.get_or_insert_default().extend(rest.next()),
            '$' if rest.next_if_eq(&'(').is_some() => {
                substituted(&mut rest, word.get_or_insert_default());
            }
            '\n' | ';' | '|' | '&' | '<' | '>' => {
                words.extend(word.take());
                commands.push(take(&mut words));
            }
            ' ' => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

fn quoted(rest: &mut Peekable<Chars<'_>>, quote: char, word: &mut String) {
    while let Some(letter) = rest.next() {
        match letter {
            _ if letter == quote => return,
            '\\' if quote == '"' => word.extend(rest.next()),
            _ => word.push(letter),
        }
    }
}

/// `$(...)`, to its end.
fn substituted(rest: &mut Peekable<Chars<'_>>, word: &mut String) {
    word.push_str("$(");
    let mut depth = 1;
    while depth > 0 {
        let Some(letter) = rest.next() else { return };
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        word.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_however_a_person_writes_them() {
        let page = r#"
```sh
ship sail --to "New York" \
  --with 'a crew' # of ten
FLAG=red KIND= ship sail -n $(hostname -s) | ship count > list
other ship
# ship sink
```
```text
$ ship help
ship of the line
```
"#;
        let calls = calls(page, "ship");
        let words: Vec<_> = calls
            .iter()
            .map(|it| (it.line, it.words.join("~")))
            .collect();
        let expected = [
            (2, "ship~sail~--to~New York~--with~a crew"),
            (2, "ship~sail~-n~$(hostname -s)"),
            (2, "ship~count"),
            (9, "ship~help"),
        ];
        assert_eq!(words, expected.map(|(line, it)| (line, it.to_owned())));
        let set = [("FLAG", "red"), ("KIND", "")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(calls[1].variables, set);
    }
}
