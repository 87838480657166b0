//! The pull half of the registry protocol over the image store, as pure lookups: the HTTP server is the caller's.

use std::path::PathBuf;

use crate::image::MANIFEST;
use crate::image::store::Store;

/// What to answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The protocol is spoken here.
    Version,
    /// A file and its media type, with the digest it has.
    File {
        /// What to send.
        path: PathBuf,
        /// Its type.
        media_type: &'static str,
        /// Its digest.
        digest: String,
    },
    /// No such image, blob or path.
    Unknown,
}

/// Answers `GET` or `HEAD` of `path`; `namespace` is the registry that the client meant, `docker.io` if it
/// does not say.
pub fn answer(store: &Store, path: &str, namespace: Option<&str>) -> Answer {
    let Some(rest) = path.strip_prefix("/v2") else {
        return Answer::Unknown;
    };
    let rest = rest.trim_start_matches('/');
    if rest.is_empty() {
        return Answer::Version;
    }
    if let Some((_, digest)) = rest.split_once("/blobs/") {
        return file(store, digest, "application/octet-stream");
    }
    if let Some((name, reference)) = rest.split_once("/manifests/") {
        if reference.starts_with("sha256:") {
            return file(store, reference, MANIFEST);
        }
        let full = format!("{}/{name}:{reference}", namespace.unwrap_or("docker.io"));
        return match store.resolve(&full) {
            Ok(manifest) => file(store, &manifest.digest, MANIFEST),
            Err(_) => Answer::Unknown,
        };
    }
    Answer::Unknown
}

/// Only a digest names a file: no path of a request ever reaches the file system.
fn file(store: &Store, digest: &str, media_type: &'static str) -> Answer {
    let is_digest = digest
        .strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let path = store.blob(digest);
    if is_digest && path.is_file() {
        Answer::File {
            path,
            media_type,
            digest: digest.to_owned(),
        }
    } else {
        Answer::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::image::rootfs::Rootfs;

    #[test]
    fn only_what_is_in_the_store_is_served() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let mut rootfs = Rootfs::default();
        rootfs.text("/hello", "hello");
        let name = "docker.io/library/busybox:latest".to_owned();
        let image = Image {
            name,
            rootfs,
            entrypoint: Vec::new(),
            command: Vec::new(),
            labels: Vec::new(),
        };
        let manifest = image.build(&store).unwrap();

        assert_eq!(answer(&store, "/v2/", None), Answer::Version);
        let by_name = answer(
            &store,
            "/v2/library/busybox/manifests/latest",
            Some("docker.io"),
        );
        let by_digest = format!("/v2/library/busybox/manifests/{}", manifest.digest);
        assert_eq!(by_name, answer(&store, &by_digest, None));
        assert!(matches!(
            by_name,
            Answer::File {
                media_type: MANIFEST,
                ..
            }
        ));
        for unknown in [
            "/",
            "/v2/library/busybox/manifests/other",
            "/v2/library/busybox/blobs/../../../../etc/passwd",
            "/v2/library/busybox/blobs/sha256:../../names",
            "/v2/x/manifests/../../y",
        ] {
            assert_eq!(answer(&store, unknown, None), Answer::Unknown, "{unknown}");
        }
        assert_eq!(
            answer(
                &store,
                "/v2/library/busybox/manifests/latest",
                Some("quay.io")
            ),
            Answer::Unknown
        );
    }
}
