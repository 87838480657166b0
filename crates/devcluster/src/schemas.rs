//! The schemas of Kubernetes versions that do not run here: PyPI's `kubernetes-validate` ships them, with a validator.

use std::path::PathBuf;
use std::process::Command;

use crate::debian::{self, Scratch};
use crate::error::{Result, refused};
use crate::process::{feed, logged};
use crate::report::Report;
use crate::{checksums, places};

/// What is fetched. Other versions know other versions of Kubernetes.
const PACKAGE: &str = "kubernetes-validate==1.37.0";

/// Reads objects from standard input, prints what is wrong with each for each version, and ends.
const VALIDATE: &str = "
import json, sys
import kubernetes_validate as validator
things = json.load(sys.stdin)
for minor in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    for thing in things:
        title = f\"1.{minor} {thing['kind']}/{thing['metadata']['name']}\"
        try:
            validator.validate(thing, f'1.{minor}', strict=True)
        except validator.ValidationError as error:
            print(f\"{title}: {error.message} at {'.'.join(map(str, error.path))}\")
        except validator.SchemaNotFoundError:
            print(f'{title}: no such kind')
";

/// Makes sure of the validator. Called twice: the second call only looks.
pub fn ensure(report: &Report) -> Result<()> {
    let place = place();
    if checksums::is_sealed(&place) {
        return Ok(());
    }
    debian::install_missing(&[("python3", "python3"), ("pip3", "python3-pip")], report)?;
    let step = report.step("Fetching schemas of newer Kubernetes versions from PyPI");
    let scratch = Scratch::new("schemas")?;
    let next = scratch.path().join("next");
    let mut install = Command::new("python3");
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--break-system-packages",
            "--target",
        ])
        .arg(&next)
        .arg(PACKAGE);
    logged(&mut install, report.log(), |_| ())?;
    checksums::seal(&next)?;
    scratch.become_directory(&next, &place)?;
    step.done("");
    Ok(())
}

/// What is wrong with objects, a JSON list of them, by the schemas of these minor versions of Kubernetes: nothing is an empty text.
pub fn violations(objects: &str, oldest: u32, newest: u32) -> Result<String> {
    let place = place();
    if !checksums::is_sealed(&place) {
        return refused("the schemas are not there: run `./x test` once");
    }
    let mut python = Command::new("python3");
    python
        .args(["-c", VALIDATE, &oldest.to_string(), &newest.to_string()])
        .env("PYTHONPATH", &place)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    feed(&mut python, objects)
}

fn place() -> PathBuf {
    places::cache().join(PACKAGE.replace("==", "-"))
}
