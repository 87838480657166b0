//! Names of container images.

/// Sidecars of the Kubernetes project whose `v0` releases implement CSI 0.x, and what to use instead.
const OUTDATED: [(&str, &str); 5] = [
    ("csi-attacher", "csi-attacher:v4.12.0"),
    ("csi-provisioner", "csi-provisioner:v6.3.0"),
    ("csi-snapshotter", "csi-snapshotter:v8.6.0"),
    ("driver-registrar", "csi-node-driver-registrar:v2.17.0"),
    ("livenessprobe", "livenessprobe:v2.19.0"),
];

/// Why an image cannot be used, if it is known to be from before CSI 1.0.
pub fn outdated(image: &str) -> Option<String> {
    let file = image.rsplit('/').next()?;
    let (name, tag) = file.split('@').next()?.split_once(':')?;
    let (_, replacement) = OUTDATED.into_iter().find(|(known, _)| *known == name)?;
    (tag.starts_with("v0.") || tag.starts_with("0.")).then(|| {
        format!(
            "implements CSI 0.x, which kubelets no longer support: use \
             registry.k8s.io/sig-storage/{replacement} or newer"
        )
    })
}

/// The image in a mirror: `prefix` takes the place of the registry.
pub fn mirrored(prefix: &str, image: &str) -> String {
    let path = match image.split_once('/') {
        // Only a first part that looks like a host is one.
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => image,
    };
    format!("{}/{path}", prefix.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_from_before_csi_1_0_are_named_with_their_successor() {
        let old = "quay.io/k8scsi/driver-registrar:v0.3.0";
        let reason = outdated(old).unwrap();
        assert!(
            reason.contains("csi-node-driver-registrar:v2.17.0"),
            "{reason}"
        );
        assert!(outdated("host:5000/livenessprobe:v0.4.1@sha256:12").is_some());
        for good in [
            "registry.k8s.io/sig-storage/csi-attacher:v4.12.0",
            "registry.k8s.io/sig-storage/csi-resizer:v0.5.0",
            "mirror/csi-attacher@sha256:12",
            "mirror:5000/csi-attacher",
            "mine/attacher:v0.1.0",
        ] {
            assert_eq!(outdated(good), None, "{good}");
        }
    }

    #[test]
    fn a_mirror_keeps_the_path() {
        for (image, expected) in [
            ("registry.k8s.io/sig-storage/a:v1", "m/x/sig-storage/a:v1"),
            ("localhost/a:v1", "m/x/a:v1"),
            ("host:5000/a:v1", "m/x/a:v1"),
            ("library/a:v1", "m/x/library/a:v1"),
            ("a:v1", "m/x/a:v1"),
        ] {
            assert_eq!(mirrored("m/x/", image), expected);
        }
    }
}
