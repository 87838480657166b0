//! Where the volumes live, and whether they may: decided from facts that [`facts`] reads.
//!
//! What is written must be there after the next restart, of the container and of the machine, and nobody else may put
//! something in its place. Where volumes are already, the driver starts all the same and says what threatens them.

use std::path::{Path, PathBuf};

mod facts;

pub(crate) use facts::{look_again, look_around};

/// Where volumes live if nobody says otherwise.
pub(crate) const USUAL: &str = "/var/lib/stowage";

/// Where they lived by default before, and what the manifest of the original documentation mounts a directory over.
pub(crate) const TEMPORARY: &str = "/tmp/csi-hostpath";

/// What is known of a directory, whether or not it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// It is on another mount than the root.
    pub(crate) own_mount: bool,
    /// The kind of a filesystem that is in memory only.
    pub(crate) memory: Option<&'static str>,
    /// Who else may change what is in it.
    pub(crate) open_to: Option<OpenTo>,
    pub(crate) holds_volumes: bool,
}

/// Who may change what is in a directory, beside the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenTo {
    /// The user that it, or a link that leads to it, belongs to.
    Owner(u32),
    /// Whoever this mode allows to.
    Mode(u32),
}

/// What is known of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    pub(crate) in_container: bool,
    pub(crate) usual: Directory,
    pub(crate) temporary: Directory,
    /// The one that the flag names.
    pub(crate) asked: Option<Directory>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    /// Why somebody should choose another.
    pub(crate) warnings: Vec<String>,
    /// What threatens the volumes that are there.
    pub(crate) danger: Option<String>,
}

/// Why there is no place for volumes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "neither {USUAL} nor /tmp is a directory of the node in this container, so that volumes would be gone with it: mount one, and name it with --statedir"
    )]
    Nowhere,
    #[error(
        "volumes would not be safe in the state directory `{}`: {danger}; choose another with --statedir, or insist with --allow-volatile-statedir",
        path.display()
    )]
    Unsafe { path: PathBuf, danger: String },
}

/// Where the volumes live. `insisted` is whether somebody said that what is in danger may be lost.
pub(crate) fn decide(around: &Surroundings, insisted: bool) -> Result<Home, Refusal> {
    let (directory, mut warnings) = choose(around)?;
    let judged = judge(directory, insisted)?;
    warnings.extend(judged.warnings);
    // Only where somebody's volumes are there already.
    let leaves = around.asked.is_none() && around.in_container && !directory.own_mount;
    let layer = || "it is in the container itself, and goes with it".to_owned();
    Ok(Home {
        warnings,
        danger: judged.danger.or_else(|| leaves.then(layer)),
        ..judged
    })
}

fn choose(around: &Surroundings) -> Result<(&Directory, Vec<String>), Refusal> {
    let Surroundings {
        in_container,
        usual,
        temporary,
        asked,
    } = around;
    if let Some(asked) = asked {
        return Ok((asked, Vec::new()));
    }
    let usual_lasts = usual.own_mount || !in_container;
    // A directory that anybody could have made is no reason to leave the usual one alone.
    let ours = temporary.open_to.is_none() || !usual_lasts;
    if temporary.holds_volumes && !usual.holds_volumes && ours {
        let warning = format!(
            "Volumes are in {TEMPORARY}, where many systems remove what is old: stop the driver, move that directory, and name it with --statedir."
        );
        return Ok((temporary, vec![warning]));
    }
    if usual_lasts {
        return Ok((usual, Vec::new()));
    }
    if temporary.own_mount {
        let warning = format!(
            "Volumes are made in {TEMPORARY}, where many systems remove what is old: mount a directory of the node, such as {USUAL}, and name it with --statedir."
        );
        return Ok((temporary, vec![warning]));
    }
    Err(Refusal::Nowhere)
}

/// Whether a directory may hold volumes. Also for one that has just been made: somebody else may have been faster.
pub(crate) fn judge(directory: &Directory, insisted: bool) -> Result<Home, Refusal> {
    let path = directory.path.clone();
    let Some(danger) = danger_of(directory) else {
        return Ok(Home {
            path,
            warnings: Vec::new(),
            danger: None,
        });
    };
    if !insisted && !directory.holds_volumes {
        return Err(Refusal::Unsafe { path, danger });
    }
    let warnings = vec![format!(
        "Volumes are not safe in the state directory {}: {danger}.",
        path.display()
    )];
    Ok(Home {
        path,
        warnings,
        danger: (!insisted).then_some(danger),
    })
}

fn danger_of(directory: &Directory) -> Option<String> {
    if let Some(kind) = directory.memory {
        return Some(format!(
            "it is on a {kind}, which is empty after a restart of the machine"
        ));
    }
    match directory.open_to? {
        OpenTo::Owner(user) => Some(format!(
            "it belongs to user {user}, who can replace what is in it"
        )),
        OpenTo::Mode(mode) => Some(format!(
            "others can replace what is in it (its mode is {mode:04o})"
        )),
    }
}

impl Home {
    /// What is said of each volume here, if it is not safe.
    pub(crate) fn condition(&self) -> Option<String> {
        let danger = self.danger.as_ref()?;
        let path: &Path = &self.path;
        Some(format!(
            "the volume is not safe in the state directory `{}`: {danger}",
            path.display()
        ))
    }
}

#[cfg(test)]
mod tests;
