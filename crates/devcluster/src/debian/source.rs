//! Debian's source packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Doing, Result, refused};
use crate::places;
use crate::process::{capture, logged};
use crate::report::Report;

/// Downloads and unpacks Debian's source package `name` into `<scratch>/source`, patches applied.
///
/// The machine's own package sources are used, as source entries in a list of our own: the machine's lists
/// stay as they are.
pub fn unpack_source(name: &str, scratch: &Path, report: &Report) -> Result<PathBuf> {
    let parts = scratch.join("sources.list.d");
    let lists = scratch.join("lists");
    places::make(&parts)?;
    places::make(&lists.join("partial"))?;
    if source_entries(&parts)? == 0 {
        return refused(
            "no Debian package source is configured in `/etc/apt`: add one, or set KUBEBUILDER_ASSETS to a \
             directory of Kubernetes binaries",
        );
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .arg("-oDir::Etc::sourcelist=/dev/null")
            .arg(format!("-oDir::Etc::sourceparts={}", parts.display()))
            .arg(format!("-oDir::State::lists={}", lists.display()))
            .args(arguments)
            .current_dir(scratch);
        command
    };
    logged(&mut apt(&["update"]), report.log(), |_| ())?;
    logged(
        &mut apt(&["source", "--download-only", name]),
        report.log(),
        |_| (),
    )?;
    let find = || {
        format!(
            "cannot find the source package `{name}` in `{}`",
            scratch.display()
        )
    };
    let description = fs::read_dir(scratch)
        .doing(find)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "dsc"))
        .ok_or(std::io::Error::from(std::io::ErrorKind::NotFound))
        .doing(find)?;
    let source = scratch.join("source");
    let mut extract = Command::new("dpkg-source");
    extract
        .arg("-x")
        .arg(&description)
        .arg(&source)
        .current_dir(scratch);
    logged(&mut extract, report.log(), |_| ())?;
    Ok(source)
}

/// Rewrites the machine's binary package entries for its own release as source entries; returns how many.
fn source_entries(into: &Path) -> Result<usize> {
    let codename =
        capture(Command::new("sh").args(["-c", ". /etc/os-release; echo $VERSION_CODENAME"]))?;
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut count = 0;
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let rewritten = match file.extension().and_then(|e| e.to_str()) {
            Some("list") => as_source_lines(&text, codename.trim()),
            Some("sources") => as_source_stanzas(&text, codename.trim()),
            _ => continue,
        };
        if !rewritten.is_empty() {
            places::write(&into.join(file.file_name().unwrap_or_default()), rewritten)?;
            count += 1;
        }
    }
    Ok(count)
}

fn as_source_lines(text: &str, codename: &str) -> String {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("deb "))
        .filter(|rest| rest.contains(codename))
        .map(|rest| format!("deb-src {rest}\n"))
        .collect()
}

fn as_source_stanzas(text: &str, codename: &str) -> String {
    let of_this_release = |stanza: &&str| {
        stanza
            .lines()
            .any(|line| line.starts_with("Suites:") && line.contains(codename))
            && stanza.lines().any(|line| line.starts_with("Types:"))
    };
    let rewrite = |stanza: &str| {
        let lines = stanza.lines().map(|line| {
            if line.starts_with("Types:") {
                "Types: deb-src"
            } else {
                line
            }
        });
        lines.collect::<Vec<_>>().join("\n") + "\n"
    };
    let stanzas: Vec<String> = text
        .split("\n\n")
        .filter(of_this_release)
        .map(rewrite)
        .collect();
    stanzas.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_entries_become_source_entries() {
        let text = "# comment\ndeb https://mirror.example/debian bookworm main\ndeb-src x bookworm main\n\
                    deb [arch=amd64] https://vendor.example stable main\n";
        assert_eq!(
            as_source_lines(text, "bookworm"),
            "deb-src https://mirror.example/debian bookworm main\n"
        );
    }

    #[test]
    fn stanzas_keep_their_keys_and_others_are_left_out() {
        let text = "Types: deb\nURIs: https://mirror.example\nSuites: bookworm bookworm-updates\n\
                    Signed-By: /k.gpg\n\nTypes: deb\nURIs: https://vendor.example\nSuites: stable\n";
        assert_eq!(
            as_source_stanzas(text, "bookworm"),
            "Types: deb-src\nURIs: https://mirror.example\nSuites: bookworm bookworm-updates\nSigned-By: /k.gpg\n"
        );
    }
}
