//! Every command of README and `docs/` is run by a test, or says why not.

use std::fs;
use std::path::Path;

use devcluster::testing::documented::{Fate, blocks};

use super::finding::Finding;

/// What breaks the rule in pages that people read; decisions have no commands.
pub fn check_all(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let guides = fs::read_dir(root.join("docs/guides"))?;
    let guides = guides.map(|entry| Ok(entry?.path()));
    let mut pages = guides.collect::<anyhow::Result<Vec<_>>>()?;
    pages.retain(|page| page.extension().is_some_and(|it| it == "md"));
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    pages.sort();
    let reads = |file: &str| fs::read_to_string(root.join(file)).ok();
    let mut findings = Vec::new();
    for page in pages {
        let name = page.strip_prefix(root).unwrap_or(&page);
        let text = fs::read_to_string(&page)?;
        findings.extend(check(&name.to_string_lossy(), &text, reads));
    }
    Ok(findings)
}

const NO_LANGUAGE: &str =
    "a block without a language: `sh` for commands, `text` for what is printed";
const NO_FATE: &str = "commands without `<!-- run -->`, `<!-- run by: FILE -->` or `<!-- not run: REASON -->` above them";

/// What breaks the rule in one page; `reads` gives the text of a file of the project, if there is one.
fn check(page: &str, text: &str, reads: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let name = page.rsplit('/').next().unwrap_or(page);
    let mut findings = Vec::new();
    for block in blocks(text) {
        let mut complain =
            |what: &str| findings.push(Finding::at(Path::new(page), block.line, what));
        match (block.language.as_str(), &block.fate) {
            ("", _) => complain(NO_LANGUAGE),
            ("sh", None) => complain(NO_FATE),
            ("sh", Some(Fate::RunBy(files))) => {
                for file in files {
                    match reads(file).map(|source| source.contains(name)) {
                        Some(true) => {}
                        Some(false) => complain(&format!("`{file}` does not speak of `{name}`")),
                        None => complain(&format!("`{file}` does not exist")),
                    }
                }
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_nobody_runs_are_found() {
        let page = "```\na\n```\n```sh\nb\n```\n<!-- run by: t.rs -->\n```sh\nc\n```\n<!-- run by: gone.rs -->\n```sh\nd\n```\n<!-- run -->\n```sh\ne\n```\n```yaml\nf\n```\n";
        let reads = |file: &str| (file == "t.rs").then(|| "include_str!(\"page.md\")".to_owned());
        let found = check("docs/page.md", page, reads);
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[2].contains("`gone.rs` does not exist"), "{lines:?}");
    }
}
