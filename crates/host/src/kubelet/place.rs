//! Where kubelets mount volumes of CSI drivers, and where they note down whose they are. From 1.20 on.

use std::path::{Component, Path, PathBuf};

/// What the path of a mount tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The kubelet's note, below its directory.
    pub(super) note: PathBuf,
    /// The driver, where the path names it.
    pub(super) driver: Option<String>,
    /// The uid of the pod, where it is for one.
    pub(super) pod: Option<String>,
    /// Whether only CSI volumes are mounted there.
    pub(super) is_certain: bool,
}

/// The directory of CSI volumes in a pod's.
const OF_POD: &str = "kubernetes.io~csi";
/// The kubelet's note.
pub(super) const NOTE: &str = "vol_data.json";

impl Place {
    /// The kubelet's directory, if a volume of a CSI driver is mounted here.
    pub(super) fn root(point: &Path) -> Option<&Path> {
        point.ancestors().skip(1).find(|root| {
            let rest = point.strip_prefix(root).ok();
            rest.and_then(Self::of).is_some_and(|it| it.is_certain)
        })
    }

    /// Reads the path of a mount below the kubelet's directory. `None`: no volume of a CSI driver is mounted there.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let words: Option<Vec<_>> = path
            .components()
            .map(|component| match component {
                Component::Normal(word) => word.to_str(),
                _ => None,
            })
            .collect();
        match words?.as_slice() {
            ["pods", pod, "volumes", OF_POD, volume, ..] => Some(Self::in_pod(pod, volume, true)),
            // Binds of a part of a volume, of any kind.
            ["pods", pod, "volume-subpaths", volume, ..] => Some(Self::in_pod(pod, volume, false)),
            ["plugins", "kubernetes.io", "csi", rest @ ..] => Self::in_plugin(rest),
            _ => None,
        }
    }

    fn in_pod(pod: &str, volume: &str, is_certain: bool) -> Self {
        Self {
            note: ["pods", pod, "volumes", OF_POD, volume, NOTE]
                .iter()
                .collect(),
            driver: None,
            pod: Some(pod.to_owned()),
            is_certain,
        }
    }

    fn in_plugin(rest: &[&str]) -> Option<Self> {
        let below = |words: &[&str]| {
            let plugin = Path::new("plugins/kubernetes.io/csi");
            words
                .iter()
                .fold(plugin.to_owned(), |path, it| path.join(it))
        };
        let (note, driver, pod) = match rest {
            ["volumeDevices", "staging", volume, ..] => (of_device(volume), None, None),
            ["volumeDevices", "publish", volume, pods @ ..] => {
                (of_device(volume), None, pods.first())
            }
            ["volumeDevices", volume, "dev", pods @ ..] => (of_device(volume), None, pods.first()),
            // Up to 1.23.
            ["pv", volume, "globalmount", ..] => (below(&["pv", volume, NOTE]), None, None),
            // From 1.24 on: the volume's handle as a hash.
            [driver, volume, "globalmount", ..] => {
                (below(&[driver, volume, NOTE]), Some(*driver), None)
            }
            _ => return None,
        };
        Some(Self {
            note,
            driver: driver.map(ToOwned::to_owned),
            pod: pod.map(|it| (*it).to_owned()),
            is_certain: true,
        })
    }
}

fn of_device(volume: &str) -> PathBuf {
    let plugin = Path::new("plugins/kubernetes.io/csi/volumeDevices");
    plugin.join(volume).join("data").join(NOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_found_where_kubelets_of_all_ages_mount_them() {
        let csi = "plugins/kubernetes.io/csi";
        for (path, note, driver, pod) in [
            (
                "pods/u1/volumes/kubernetes.io~csi/pv1/mount".to_owned(),
                "pods/u1/volumes/kubernetes.io~csi/pv1/vol_data.json".to_owned(),
                None,
                Some("u1"),
            ),
            (
                "pods/u1/volume-subpaths/pv1/main/0".to_owned(),
                "pods/u1/volumes/kubernetes.io~csi/pv1/vol_data.json".to_owned(),
                None,
                Some("u1"),
            ),
            (
                format!("{csi}/pv/pv1/globalmount"),
                format!("{csi}/pv/pv1/vol_data.json"),
                None,
                None,
            ),
            (
                format!("{csi}/a.example/0f3a/globalmount"),
                format!("{csi}/a.example/0f3a/vol_data.json"),
                Some("a.example"),
                None,
            ),
            (
                format!("{csi}/volumeDevices/staging/pv1"),
                format!("{csi}/volumeDevices/pv1/data/vol_data.json"),
                None,
                None,
            ),
            (
                format!("{csi}/volumeDevices/publish/pv1/u1"),
                format!("{csi}/volumeDevices/pv1/data/vol_data.json"),
                None,
                Some("u1"),
            ),
            (
                format!("{csi}/volumeDevices/pv1/dev/u1"),
                format!("{csi}/volumeDevices/pv1/data/vol_data.json"),
                None,
                Some("u1"),
            ),
        ] {
            let place = Place::of(Path::new(&path)).expect(&path);
            assert_eq!(place.note, Path::new(&note), "{path}");
            assert_eq!(place.driver.as_deref(), driver, "{path}");
            assert_eq!(place.pod.as_deref(), pod, "{path}");
        }
        for other in [
            "",
            "pods/u1/volumes/kubernetes.io~secret/token",
            "plugins/kubernetes.io/nfs/x",
            "plugins/a.example/work",
            "plugins_registry",
        ] {
            assert_eq!(Place::of(Path::new(other)), None, "{other}");
        }
    }
}
