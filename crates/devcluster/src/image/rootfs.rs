//! The files of an image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Doing, Result, refused};
use crate::places;
use crate::process::capture;

/// Files by their path in the image; sorted, so that an image is the same wherever it is built.
#[derive(Default)]
pub struct Rootfs {
    entries: BTreeMap<PathBuf, Entry>,
}

enum Entry {
    Directory { mode: u32 },
    File { from: PathBuf, mode: u32 },
    Text { content: String },
    Link { to: PathBuf },
}

impl Rootfs {
    /// A file copied from the machine.
    pub fn file(&mut self, path: impl Into<PathBuf>, from: PathBuf, mode: u32) {
        self.put(path.into(), Entry::File { from, mode });
    }

    /// A small text.
    pub fn text(&mut self, path: impl Into<PathBuf>, content: impl Into<String>) {
        self.put(
            path.into(),
            Entry::Text {
                content: content.into(),
            },
        );
    }

    /// A symbolic link.
    pub fn link(&mut self, path: impl Into<PathBuf>, to: impl Into<PathBuf>) {
        self.put(path.into(), Entry::Link { to: to.into() });
    }

    /// An empty directory.
    pub fn directory(&mut self, path: impl Into<PathBuf>, mode: u32) {
        self.put(path.into(), Entry::Directory { mode });
    }

    /// A program of the machine at `path`, with every shared library it needs at its own place.
    pub fn program(&mut self, path: impl Into<PathBuf>, from: &Path) -> Result<()> {
        if !from.is_file() {
            return refused(format!(
                "there is no program `{}` to put into an image",
                from.display()
            ));
        }
        for library in libraries(from)? {
            self.file(library.clone(), library, 0o755);
        }
        self.file(path, from.to_owned(), 0o755);
        Ok(())
    }

    /// Files of the machine that are in it, each once.
    pub fn sources(&self) -> Vec<PathBuf> {
        let files = self.entries.values().filter_map(|entry| match entry {
            Entry::File { from, .. } => Some(from.clone()),
            _ => None,
        });
        files.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn put(&mut self, path: PathBuf, entry: Entry) {
        for parent in path.ancestors().skip(1).filter(|p| p.parent().is_some()) {
            let directory = || Entry::Directory { mode: 0o755 };
            self.entries
                .entry(parent.to_owned())
                .or_insert_with(directory);
        }
        self.entries.insert(path, entry);
    }

    /// Writes them as one layer.
    pub fn write_tar(&self, to: &mut impl Write) -> Result<()> {
        let mut tar = tar::Builder::new(to);
        for (path, entry) in &self.entries {
            append(&mut tar, path, entry)
                .doing(|| format!("cannot add `{}` to an image", path.display()))?;
        }
        tar.finish().doing(|| "cannot finish a layer".to_owned())
    }

    /// Writes them as files below `directory`, for a Dockerfile to copy.
    pub fn write_files(&self, directory: &Path) -> Result<()> {
        places::make(directory)?;
        for (path, entry) in &self.entries {
            let to = directory.join(path.strip_prefix("/").unwrap_or(path));
            place(&to, entry).doing(|| format!("cannot write `{}`", to.display()))?;
        }
        Ok(())
    }
}

fn append<W: Write>(tar: &mut tar::Builder<W>, path: &Path, entry: &Entry) -> std::io::Result<()> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let mut header = tar::Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    match entry {
        Entry::Directory { mode } => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(*mode);
            header.set_size(0);
            tar.append_data(&mut header, inside, std::io::empty())
        }
        Entry::File { from, mode } => {
            let file = File::open(from)?;
            header.set_mode(*mode);
            header.set_size(file.metadata()?.len());
            tar.append_data(&mut header, inside, file)
        }
        Entry::Text { content } => {
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, inside, content.as_bytes())
        }
        Entry::Link { to } => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            header.set_size(0);
            tar.append_link(&mut header, inside, to)
        }
    }
}

fn place(to: &Path, entry: &Entry) -> std::io::Result<()> {
    let set_mode = |mode: u32| fs::set_permissions(to, fs::Permissions::from_mode(mode));
    match entry {
        Entry::Directory { mode } => fs::create_dir_all(to).and_then(|()| set_mode(*mode)),
        Entry::File { from, mode } => fs::copy(from, to).and_then(|_| set_mode(*mode)),
        Entry::Text { content } => fs::write(to, content),
        Entry::Link { to: target } => symlink(target, to),
    }
}

/// Shared libraries of a program, the loader included, as the loader itself finds them.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let Ok(said) = capture(Command::new("ldd").arg(program)) else {
        // `ldd` refuses what is linked statically: nothing to add.
        return Ok(Vec::new());
    };
    if let Some(missing) = said.lines().find(|line| line.contains("not found")) {
        return refused(format!(
            "`{}` needs a library this machine does not have: {}",
            program.display(),
            missing.trim()
        ));
    }
    let path_in = |line: &str| {
        line.split_whitespace()
            .find(|word| word.starts_with('/'))
            .map(PathBuf::from)
    };
    Ok(said.lines().filter_map(path_in).collect())
}

/// Busybox under all of its names. (Debian's 1.35 crashes in `wget -T`: use `timeout`.)
pub fn busybox(program: &Path) -> Result<Rootfs> {
    let mut rootfs = Rootfs::default();
    rootfs.file("/bin/busybox", program.to_owned(), 0o755);
    for applet in capture(Command::new(program).arg("--list"))?.lines() {
        if applet != "busybox" {
            rootfs.link(Path::new("/bin").join(applet), "busybox");
        }
    }
    rootfs.text(
        "/etc/passwd",
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    );
    rootfs.text("/etc/group", "root:x:0:\nnogroup:x:65534:\n");
    rootfs.directory("/tmp", 0o1777);
    Ok(rootfs)
}
