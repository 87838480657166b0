//! A cgroup per node, below which its kubelet keeps its pods. Kubelets that share one delete each other's.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Doing, Error, Result};

/// Makes the cgroup `name` in every hierarchy of the machine. Called twice: finds it there.
pub fn make(name: &str) -> Result<()> {
    for root in hierarchies() {
        let group = root.join(name);
        if root.join("cgroup.controllers").is_file() {
            enable_controllers(&root);
        }
        match fs::create_dir(&group) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).doing(|| format!("cannot make cgroup `{}`", group.display()));
            }
            _ => {}
        }
        // A fresh v1 cpuset holds no processor: nothing could be started in it.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(all) = fs::read_to_string(root.join(file)) {
                let to = group.join(file);
                fs::write(&to, all.trim()).doing(|| format!("cannot write `{}`", to.display()))?;
            }
        }
    }
    Ok(())
}

/// Removes every cgroup that begins with `prefix`, deepest first. What just died may hold one for a moment.
pub fn remove(prefix: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let left: Vec<PathBuf> = find(prefix);
        for group in &left {
            remove_tree(group);
        }
        let Some(stuck) = left.iter().find(|group| group.exists()) else {
            return Ok(());
        };
        if started.elapsed() > Duration::from_secs(20) {
            return Err(Error::Refused(format!(
                "cgroup `{}` cannot be removed: a process still runs in it, see its `cgroup.procs`",
                stuck.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// All cgroups at the top of any hierarchy whose name begins with `prefix`.
pub fn find(prefix: &str) -> Vec<PathBuf> {
    let begins = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    hierarchies()
        .iter()
        .flat_map(|root| children(root))
        .filter(begins)
        .collect()
}

/// Mount points of cgroup v1 controllers, or the one of v2.
fn hierarchies() -> Vec<PathBuf> {
    let top = PathBuf::from("/sys/fs/cgroup");
    if top.join("cgroup.controllers").is_file() {
        return vec![top];
    }
    // Links such as `cpu,cpuacct` lead to a hierarchy that is listed already.
    children(&top)
        .into_iter()
        .filter(|path| !path.is_symlink() && path.join("cgroup.procs").is_file())
        .collect()
}

/// v2 hands controllers down only where asked. What cannot be enabled, kubelet names by itself.
fn enable_controllers(root: &Path) {
    let offered = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    for controller in offered.split_whitespace() {
        let _ = fs::write(
            root.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
}

fn remove_tree(group: &Path) {
    for child in children(group) {
        remove_tree(&child);
    }
    // Busy or gone: the caller looks again.
    let _ = fs::remove_dir(group);
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}
