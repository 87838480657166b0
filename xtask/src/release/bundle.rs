//! One file for a cluster that can reach nothing: image, manifests, charts, examples, and what to do with them.

use std::fs;
use std::path::{Path, PathBuf};

use super::archive::Files;
use super::charts;
use crate::workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is in `deploy/` for tests only.
const FOR_TESTS: &str = "/deploy/sim/";

/// Writes it beside the image that it holds; returns its path.
pub fn write(image: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let root = workspace::root();
    let inside = format!("stowage-{VERSION}");
    let mut files = Files::default();
    for name in ["deploy", "examples"] {
        files.put_directory(&format!("{inside}/{name}"), &root.join(name))?;
    }
    files.retain(|path| !path.contains(FOR_TESTS));
    files.put(format!("{inside}/LICENSE"), fs::read(root.join("LICENSE"))?);
    files.put(
        format!("{inside}/INSTALL.md"),
        include_str!("INSTALL.md").replace("VERSION", VERSION),
    );
    files.put(format!("{inside}/images/stowage.tar"), fs::read(image)?);
    for chart in charts::pack()? {
        files.put(format!("{inside}/charts/{}", chart.file), chart.content);
    }
    let sums = files.checksums().replace(&format!("  {inside}/"), "  ");
    files.put(format!("{inside}/SHA256SUMS"), sums);
    let to = directory.join(format!("stowage-{VERSION}-bundle.tar.gz"));
    fs::create_dir_all(directory)?;
    fs::write(&to, files.tar_gz()?)?;
    Ok(to)
}
