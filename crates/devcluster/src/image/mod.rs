//! Container images without Docker: a list of files becomes one layer, a configuration and a manifest.
//!
//! The same files give the same digest on every machine: entries are sorted, owners and times are zero.

pub mod rootfs;
pub mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::checksums::Hashing;
use crate::error::{Doing, Result};
use crate::image::rootfs::Rootfs;
use crate::image::store::Store;
use crate::kubernetes::go_arch;
use crate::places;

/// Media types of the three parts.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The manifest's.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What an image is made of.
pub struct Image {
    /// Full name with registry and tag, such as `docker.io/library/busybox:latest`.
    pub name: String,
    /// Its files.
    pub rootfs: Rootfs,
    /// What runs.
    pub entrypoint: Vec<String>,
    /// What runs if nothing else is asked for; used where there is no entrypoint.
    pub command: Vec<String>,
    /// What registries and scanners show about it.
    pub labels: Vec<(&'static str, &'static str)>,
}

/// A part of an image: its digest and size.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Descriptor {
    /// What it is.
    #[serde(rename = "mediaType")]
    pub media_type: String,
    /// `sha256:...`.
    pub digest: String,
    /// Bytes.
    pub size: u64,
}

impl Image {
    /// Writes all parts into the store and the name last. Called twice: the same digest.
    pub fn build(&self, store: &Store) -> Result<Descriptor> {
        let layer = store.add(LAYER, |file| self.rootfs.write_tar(file))?;
        let config = store.add_json(CONFIG, &self.config(&layer))?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
        });
        let manifest = store.add_json(MANIFEST, &manifest)?;
        store.tag(&self.name, &manifest)?;
        Ok(manifest)
    }

    fn config(&self, layer: &Descriptor) -> Value {
        json!({
            "architecture": go_arch(),
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "WorkingDir": "/",
                "Labels": self.labels.iter().copied().collect::<BTreeMap<_, _>>(),
            },
            // The layer is stored as it is, so its digest is that of its content.
            "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        })
    }
}

/// Gives an image of the store another name, and another entry point under it. Called twice: the same digest.
pub fn started_as(store: &Store, name: &str, other: &str, entrypoint: &[&str]) -> Result<()> {
    let mut manifest = store.read_json(&store.resolve(name)?.digest)?;
    let mut config = store.read_json(&digest_of(&manifest["config"]))?;
    config["config"]["Entrypoint"] = json!(entrypoint);
    manifest["config"] = json!(store.add_json(CONFIG, &config)?);
    store.tag(other, &store.add_json(MANIFEST, &manifest)?)
}

/// Writes images of the store as a file that `docker load`, `ctr images import` and `podman load` take:
/// an OCI layout and a docker archive at once. What images share is in it once.
pub fn export(store: &Store, names: &[&str], to: &Path) -> Result<()> {
    let (mut index, mut docker, mut blobs) = (Vec::new(), Vec::new(), BTreeSet::new());
    for name in names {
        let manifest = store.resolve(name)?;
        let parts = store.read_json(&manifest.digest)?;
        let config = digest_of(&parts["config"]);
        let layers = parts["layers"].as_array().into_iter().flatten();
        let layers: Vec<String> = layers.map(digest_of).collect();
        index.push(json!({
            "mediaType": MANIFEST, "digest": manifest.digest, "size": manifest.size,
            "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name},
        }));
        docker.push(json!({
            "Config": blob_path(&config),
            "RepoTags": [name],
            "Layers": layers.iter().map(|layer| blob_path(layer)).collect::<Vec<_>>(),
        }));
        blobs.extend(layers);
        blobs.extend([config, manifest.digest]);
    }
    if let Some(parent) = to.parent() {
        places::make(parent)?;
    }
    // Of its own: several may write at once, and the last one stays.
    let next = to.with_extension(format!("next-{}", std::process::id()));
    let what = || format!("cannot write image `{}`", to.display());
    let mut tar = tar::Builder::new(File::create(&next).doing(what)?);
    let small = [
        ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
        (
            "index.json",
            json!({"schemaVersion": 2, "manifests": index}),
        ),
        ("manifest.json", json!(docker)),
    ];
    for (path, content) in small {
        let bytes = content.to_string().into_bytes();
        append(&mut tar, path, bytes.len() as u64, bytes.as_slice()).doing(what)?;
    }
    for digest in &blobs {
        let blob = store.blob(digest);
        let size = fs::metadata(&blob).doing(what)?.len();
        let file = File::open(&blob).doing(what)?;
        append(&mut tar, &blob_path(digest), size, file).doing(what)?;
    }
    tar.into_inner()
        .and_then(|mut file| file.flush())
        .doing(what)?;
    fs::rename(&next, to).doing(what)
}

fn digest_of(part: &Value) -> String {
    part["digest"].as_str().unwrap_or_default().to_owned()
}

fn append(
    tar: &mut tar::Builder<File>,
    path: &str,
    size: u64,
    content: impl std::io::Read,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    tar.append_data(&mut header, path, content)
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

/// The image that holds a pod's namespaces, and a small shell image for test pods.
pub fn build_base_images(store: &Store, tools: &Path) -> Result<()> {
    let mut pause = Rootfs::default();
    pause.file("/catatonit", tools.join("catatonit"), 0o755);
    let pause = Image {
        name: crate::node_config::PAUSE_IMAGE.to_owned(),
        rootfs: pause,
        entrypoint: vec!["/catatonit".to_owned(), "-P".to_owned()],
        command: Vec::new(),
        labels: Vec::new(),
    };
    pause.build(store)?;
    let busybox = Image {
        name: "docker.io/library/busybox:latest".to_owned(),
        rootfs: rootfs::busybox(&tools.join("busybox"))?,
        entrypoint: Vec::new(),
        command: vec!["sh".to_owned()],
        labels: Vec::new(),
    };
    busybox.build(store)?;
    Ok(())
}

/// Hashes what `write` produces into the file `path`; returns digest and size.
fn write_hashed(
    path: &PathBuf,
    write: impl FnOnce(&mut Hashing<std::io::BufWriter<File>>) -> Result<()>,
) -> Result<(String, u64)> {
    let what = || format!("cannot write `{}`", path.display());
    let file = File::create(path).doing(what)?;
    let mut hashing = Hashing::new(std::io::BufWriter::new(file));
    write(&mut hashing)?;
    hashing.flush().doing(what)?;
    let (hex, size) = hashing.finish();
    Ok((format!("sha256:{hex}"), size))
}
