//! Stand-ins for the kernel's files that show drivers whether the Weka client is running.
//!
//! Several frontends of one node share them: each changes only its own line, under a lock.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::weka::control::frontends::Stage;

const MODULE: &str = "wekafsgw";

/// All that the interface file says where it does not list containers.
const NAMELESS: &str = "wekafs";

/// Where the stand-ins are.
#[derive(Clone, Debug, Default)]
pub struct StageFiles {
    /// For `/proc/modules`.
    pub modules: Option<PathBuf>,
    /// For `/proc/wekafs/interface`.
    pub interface: Option<PathBuf>,
}

impl StageFiles {
    /// Lets them say what the frontend of `container` is like.
    pub fn show(&self, container: &str, stage: Stage) -> io::Result<()> {
        if let Some(path) = &self.modules {
            let line = format!("{MODULE} 1118208 0 - Live 0x0000000000000000 (OE)");
            replace(path, MODULE, stage.module.then_some(line))?;
        }
        if let Some(path) = &self.interface {
            let name = format!("Container={container}");
            replace(path, NAMELESS, stage.nameless.then(|| NAMELESS.to_owned()))?;
            let line = if stage.nameless {
                return replace(path, &name, None);
            } else if stage.connected {
                format!("{name} FE 1: Connected frontend pid {}", std::process::id())
            } else {
                format!("{name} FE 1: Frontend is not connected")
            };
            replace(path, &name, Some(line))?;
        }
        Ok(())
    }

    /// Takes the frontend's line away.
    pub fn hide(&self, container: &str) -> io::Result<()> {
        match &self.interface {
            Some(path) => {
                replace(path, NAMELESS, None)?;
                replace(path, &format!("Container={container}"), None)
            }
            None => Ok(()),
        }
    }
}

/// Replaces the line whose first word is `name`. In place: the file may be mounted into a pod.
fn replace(path: &Path, name: &str, line: Option<String>) -> io::Result<()> {
    // There is nothing to take out of a file that is gone.
    if line.is_none() && !path.exists() {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let kept = text
        .lines()
        .filter(|kept| kept.split(' ').next() != Some(name))
        .map(ToOwned::to_owned);
    let fresh: String = kept.chain(line).map(|line| line + "\n").collect();
    if fresh == text {
        return Ok(());
    }
    rewrite(&mut file, &fresh)
}

fn rewrite(file: &mut File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontends_of_one_node_leave_each_others_lines_alone() {
        let directory = tempfile::tempdir().unwrap();
        let files = StageFiles {
            modules: Some(directory.path().join("modules")),
            interface: Some(directory.path().join("wekafs/interface")),
        };
        let read = || std::fs::read_to_string(files.interface.as_ref().unwrap()).unwrap();
        files.show("one", Stage::default()).unwrap();
        let off = Stage {
            connected: false,
            ..Stage::default()
        };
        files.show("two", off).unwrap();
        let pid = std::process::id();
        assert_eq!(
            read(),
            format!(
                "Container=one FE 1: Connected frontend pid {pid}\n\
                 Container=two FE 1: Frontend is not connected\n"
            )
        );
        files.hide("one").unwrap();
        assert_eq!(read(), "Container=two FE 1: Frontend is not connected\n");
        let nameless = Stage {
            nameless: true,
            ..Stage::default()
        };
        files.show("two", nameless).unwrap();
        assert_eq!(read(), "wekafs\n");
        files.show("two", off).unwrap();
        assert_eq!(read(), "Container=two FE 1: Frontend is not connected\n");
        let modules = std::fs::read_to_string(files.modules.as_ref().unwrap()).unwrap();
        assert!(modules.starts_with("wekafsgw "), "{modules}");

        std::fs::remove_dir_all(directory.path().join("wekafs")).unwrap();
        files.hide("two").unwrap();
        assert!(!directory.path().join("wekafs").exists());
    }
}
