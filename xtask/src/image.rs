//! Our image: the binary, the host tools that drivers call, the libraries all of them need, and nothing else.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use devcluster::cluster::Cluster;
use devcluster::debian;
use devcluster::image::rootfs::Rootfs;
use devcluster::image::store::Store;
use devcluster::image::{Image, export, started_as};
use devcluster::process::capture;
use devcluster::report::Report;

use crate::workspace::{self, say};

/// Name and tag of our image.
pub const NAME: &str = concat!("stowage.dev/stowage:", env!("CARGO_PKG_VERSION"));

/// Name and tag of the image of simulated arrays: what tests and demos run beside the product.
pub const SIMULATOR: &str = concat!("stowage.dev/stowage-sim:", env!("CARGO_PKG_VERSION"));

/// Images of other projects that the operator can be told to use, and what of ours is started in place of each, with the flags
/// that were meant for theirs: tests try these out where theirs are not to be had. livenessprobe does a part of what our
/// sidecar does on nodes; what it registers meanwhile is where no kubelet looks.
const IN_PLACE_OF: [(&str, &[&str]); 7] = [
    ("csi-wekafs", &["/usr/bin/wekafsplugin"]),
    ("csi-attacher", CONTROLLER),
    ("csi-provisioner", CONTROLLER),
    ("csi-resizer", CONTROLLER),
    ("csi-snapshotter", CONTROLLER),
    ("csi-node-driver-registrar", &[PROGRAM, "sidecar", "node"]),
    (
        "livenessprobe",
        &[
            PROGRAM,
            "sidecar",
            "node",
            "--kubelet-registration-path=/nowhere/csi.sock",
            "--plugin-registration-path=/csi",
        ],
    ),
];

/// Each of the four sidecars of controllers is a part of ours. Where all four are started, one has the lease and does everything.
const CONTROLLER: &[&str] = &[PROGRAM, "sidecar", "controller"];

/// The product in an image.
const PROGRAM: &str = "/usr/bin/stowage";

/// Programs of others whose command lines it understands when it is called by their names.
const STANDS_FOR: [&str; 2] = ["csi-operator", "wekafsplugin"];

/// Where programs look for the authorities that they trust.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Debian's authorities, one file each. Not the machine's own bundle: it may hold authorities of whoever runs the machine.
const DEBIAN_AUTHORITIES: &str = "/usr/share/ca-certificates/mozilla";

/// The package they are in, and a command of it.
const AUTHORITIES_PACKAGE: (&str, &str) = ("update-ca-certificates", "ca-certificates");

/// Which binary an image holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// What is shipped: small, without simulators, and minutes in the making.
    Release,
    /// What demos and tests run: there in a fraction of the time, and the same source.
    Debug,
}

/// Builds it as it is shipped, writes the archive, and loads it into every node of the cluster.
pub fn build_and_load(cluster: &str, report: &Report) -> anyhow::Result<()> {
    let archive = build(Binary::Release, report)?;
    let loaded = load(cluster, &archive, report)?;
    let size = archive.metadata().map(|m| m.len()).unwrap_or_default();
    say(&format!(
        "{NAME}, {} MB: {}",
        size.div_ceil(1_000_000),
        archive.display()
    ));
    if loaded == 0 {
        say(&format!(
            "Cluster {cluster} does not run, so no node has it yet; nodes pull it when they need it."
        ));
    }
    Ok(())
}

/// What a person with a cluster of their own must do.
pub fn must_be_on_the_nodes(archive: &Path) -> String {
    format!(
        "The nodes of your cluster must have {NAME}: it is in {}",
        archive.display()
    )
}

/// The archive, also known to the registry of every cluster.
pub fn build(binary: Binary, report: &Report) -> anyhow::Result<PathBuf> {
    let rootfs = rootfs(binary, report)?;
    let step = report.step(format!("Writing image {NAME}"));
    let store = write(NAME, rootfs)?;
    let archive = workspace::target().join("image/stowage.tar");
    export(&store, &[NAME], &archive)?;
    step.done("");
    Ok(archive)
}

/// The archive for tests: our image, also as the images of other projects that it takes the place of. The image must be there.
pub fn for_tests(report: &Report) -> anyhow::Result<PathBuf> {
    let step = report.step("Writing the images in place of other projects'");
    let store = Store::open()?;
    // Not our version: those of sidecars before 1.0 are refused.
    let name_of = |(project, _): &(&str, _)| format!("stowage.dev/in-place-of/{project}:ours");
    let names: Vec<_> = IN_PLACE_OF.iter().map(name_of).collect();
    for ((_, entrypoint), name) in IN_PLACE_OF.iter().zip(&names) {
        started_as(&store, NAME, name, entrypoint)?;
    }
    let names: Vec<_> = names.iter().map(String::as_str).chain([NAME]).collect();
    let archive = workspace::target().join("image/tests.tar");
    export(&store, &names, &archive)?;
    step.done("");
    Ok(archive)
}

/// Builds the simulators, writes their archive, and loads it into every node of the cluster.
pub fn build_and_load_simulator(cluster: &str, report: &Report) -> anyhow::Result<()> {
    let binary = built(Binary::Debug, report)?;
    let step = report.step(format!("Writing image {SIMULATOR}"));
    let mut rootfs = Rootfs::default();
    rootfs.program(PROGRAM, &binary)?;
    // Simulated arrays copy volumes by it.
    let copy = debian::find_command("cp").context("`cp` is missing: reinstall coreutils")?;
    rootfs.program("/usr/bin/cp", &copy)?;
    rootfs.directory("/tmp", 0o1777);
    let store = write(SIMULATOR, rootfs)?;
    let archive = workspace::target().join("image/stowage-sim.tar");
    export(&store, &[SIMULATOR], &archive)?;
    step.done("");
    load(cluster, &archive, report)?;
    Ok(())
}

fn write(name: &str, rootfs: Rootfs) -> anyhow::Result<Store> {
    let image = Image {
        name: name.to_owned(),
        rootfs,
        entrypoint: vec![PROGRAM.to_owned()],
        command: Vec::new(),
        labels: labels(),
    };
    let store = Store::open()?;
    image.build(&store)?;
    Ok(store)
}

/// What registries and scanners show.
fn labels() -> Vec<(&'static str, &'static str)> {
    vec![
        ("org.opencontainers.image.title", "stowage"),
        (
            "org.opencontainers.image.description",
            "CSI storage on Kubernetes",
        ),
        (
            "org.opencontainers.image.version",
            env!("CARGO_PKG_VERSION"),
        ),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
    ]
}

/// Loads it into every node that runs; returns how many.
pub fn load(cluster: &str, archive: &Path, report: &Report) -> anyhow::Result<usize> {
    let step = report.step("Loading the image into every node");
    let nodes = Cluster::named(cluster)?.load_image(archive)?;
    step.done(&format!("{nodes} nodes"));
    Ok(nodes)
}

/// The same image around another binary, known to the registry of every cluster.
pub fn write_with(name: &str, binary: &Path, report: &Report) -> anyhow::Result<()> {
    let step = report.step(format!("Writing image {name}"));
    write(name, around(binary, report)?)?;
    step.done("");
    Ok(())
}

/// Files of this machine that it is made of.
pub fn sources(report: &Report) -> anyhow::Result<Vec<PathBuf>> {
    Ok(sources_of(&rootfs(Binary::Release, report)?))
}

fn sources_of(rootfs: &Rootfs) -> Vec<PathBuf> {
    let mut sources = rootfs.sources();
    // In the image they are one text, and no file of the package as it is.
    sources.push(PathBuf::from(DEBIAN_AUTHORITIES));
    sources
}

/// Its files, for the Dockerfile.
pub fn write_rootfs(directory: &Path, report: &Report) -> anyhow::Result<()> {
    rootfs(Binary::Release, report)?.write_files(directory)?;
    say(&format!("Files of {NAME}: {}", directory.display()));
    Ok(())
}

/// Builds a binary; its file, without symbols.
fn built(binary: Binary, report: &Report) -> anyhow::Result<PathBuf> {
    if binary == Binary::Release {
        workspace::build_release(&["stowage"], report)?;
        return Ok(workspace::target().join("release/stowage"));
    }
    let built = workspace::build_debug(report)?;
    let stripped = workspace::target().join("image/stowage-debug");
    std::fs::create_dir_all(workspace::target().join("image"))?;
    // Whoever reads it at the same time for an image of its own reads one that is whole.
    let next = stripped.with_extension(std::process::id().to_string());
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&next);
    capture(strip.arg(built))?;
    std::fs::rename(&next, &stripped)?;
    Ok(stripped)
}

fn rootfs(binary: Binary, report: &Report) -> anyhow::Result<Rootfs> {
    around(&built(binary, report)?, report)
}

/// Everything that belongs around a binary of ours.
fn around(binary: &Path, report: &Report) -> anyhow::Result<Rootfs> {
    let mut rootfs = Rootfs::default();
    rootfs.program(PROGRAM, binary)?;
    for name in STANDS_FOR {
        rootfs.link(Path::new("/usr/bin").join(name), "stowage");
    }
    debian::install_missing(debian::FOR_DRIVERS, report)?;
    for (tool, package) in debian::FOR_DRIVERS {
        let from = debian::find_command(tool).with_context(|| {
            format!("package `{package}` did not install `{tool}`: reinstall it")
        })?;
        rootfs.program(Path::new("/usr/sbin").join(tool), &from)?;
    }
    debian::install_missing(&[AUTHORITIES_PACKAGE], report)?;
    rootfs.text(AUTHORITIES, authorities(Path::new(DEBIAN_AUTHORITIES))?);
    // What a filesystem gets when nobody says otherwise.
    let defaults = PathBuf::from("/etc/mke2fs.conf");
    rootfs.file(defaults.clone(), defaults, 0o644);
    rootfs.text(
        "/etc/passwd",
        "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
    );
    rootfs.text("/etc/group", "root:x:0:\nnonroot:x:65532:\n");
    // Without the file libraries take SELinux for switched off, whatever the kernel says, and mounts lose their labels.
    rootfs.text("/etc/selinux/config", "# The kernel of the node decides.\n");
    rootfs.directory("/tmp", 0o1777);
    Ok(rootfs)
}

/// All certificates of a directory as one text, always in the same order.
fn authorities(directory: &Path) -> anyhow::Result<String> {
    let context = || {
        format!(
            "cannot read {}: install ca-certificates",
            directory.display()
        )
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(context)? {
        files.push(entry.with_context(context)?.path());
    }
    files.sort();
    let mut bundle = String::new();
    for file in &files {
        bundle.push_str(
            std::fs::read_to_string(file)
                .with_context(context)?
                .trim_end(),
        );
        bundle.push('\n');
    }
    anyhow::ensure!(!bundle.is_empty(), context());
    Ok(bundle)
}
