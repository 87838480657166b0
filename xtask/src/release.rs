//! `./x release` and `./x bundle`: what people download.
//!
//! The same source gives the same bytes: no time, no owner, no path of the machine goes into a file. What differs is Debian: the image
//! holds the tools of the packages that are installed where it is made, and the list of parts names their versions.

mod archive;
mod bundle;
mod charts;
pub(crate) mod parts;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use devcluster::checksums;
use devcluster::process::capture;
use devcluster::report::Report;

use crate::image::{self, Binary};
use crate::workspace::{self, say};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes the bundle of an image.
pub fn bundle(binary: Binary, report: &Report) -> anyhow::Result<()> {
    let image = image::build(binary, report)?;
    let step = report.step("Writing the bundle");
    let written = bundle::write(&image, &workspace::target().join("bundle"))?;
    step.done("");
    say(&written.display().to_string());
    Ok(())
}

/// Writes everything that a release has.
pub fn run(report: &Report) -> anyhow::Result<()> {
    let directory = workspace::target().join("release-files");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let image = image::build(Binary::Release, report)?;
    let step = report.step("Writing the files of the release");
    let put = |name: String, content: &[u8]| fs::write(directory.join(name), content);
    let architecture = devcluster::kubernetes::go_arch();
    let binary = fs::read(workspace::target().join("release/stowage"))?;
    put(format!("stowage-{VERSION}-linux-{architecture}"), &binary)?;
    put(
        format!("stowage-{VERSION}-image-{architecture}.tar"),
        &fs::read(&image)?,
    )?;
    bundle::write(&image, &directory)?;
    let packed = charts::pack()?;
    for chart in &packed {
        put(chart.file.clone(), &chart.content)?;
    }
    put(
        "index.yaml".to_owned(),
        charts::index(&packed, &committed()?)?.as_bytes(),
    )?;
    let (crates, packages) = (parts::crates()?, parts::debian(&image::sources(report)?)?);
    let sbom = parts::sbom(VERSION, &[&crates, &packages]);
    put(
        format!("stowage-{VERSION}.cdx.json"),
        (serde_json::to_string_pretty(&sbom)? + "\n").as_bytes(),
    )?;
    put(
        "LICENCES.md".to_owned(),
        parts::licences(&crates, &packages).as_bytes(),
    )?;
    let sums = sums(&directory)?;
    put("SHA256SUMS".to_owned(), sums.as_bytes())?;
    step.done("");
    say(&format!("{}\n{}", directory.display(), sums.trim_end()));
    Ok(())
}

/// When this source was committed: the only time that is the same for everybody who builds it.
fn committed() -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.args([
        "log",
        "-1",
        "--format=%cd",
        "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
    ]);
    git.env("TZ", "UTC").current_dir(workspace::root());
    Ok(capture(&mut git)?.trim().to_owned())
}

fn sums(directory: &PathBuf) -> anyhow::Result<String> {
    let mut files: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    let mut text = String::new();
    for file in files {
        let sum = checksums::of_file(&file.path())?;
        text.push_str(&format!("{sum}  {}\n", file.file_name().to_string_lossy()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_the_order_in_which_files_were_written() {
        let written = |names: [&str; 3]| {
            let directory = tempfile::tempdir().unwrap();
            for name in names {
                fs::write(directory.path().join(name), name).unwrap();
            }
            sums(&directory.path().to_owned()).unwrap()
        };
        let text = written(["a", "b", "c"]);
        assert_eq!(text, written(["c", "a", "b"]));
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("  c\n"), "{text}");
    }
}
