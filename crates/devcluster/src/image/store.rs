//! Image parts by digest, and names that point at them. Lives in the cache; the registry serves it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Descriptor, write_hashed};
use crate::checksums::Hashing;
use crate::error::{Doing, Result, refused};
use crate::places;

/// A directory of blobs and names.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// The one in the cache.
    pub fn open() -> Result<Self> {
        Self::at(&places::cache().join("images"))
    }

    /// Another one.
    pub fn at(directory: &Path) -> Result<Self> {
        places::make(&directory.join("blobs/sha256"))?;
        places::make(&directory.join("names"))?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds what `write` produces. Nothing is visible before it is whole.
    pub fn add(
        &self,
        media_type: &str,
        write: impl FnOnce(&mut Hashing<std::io::BufWriter<fs::File>>) -> Result<()>,
    ) -> Result<Descriptor> {
        let unfinished = tempfile::NamedTempFile::new_in(self.directory.join("blobs"))
            .doing(|| format!("cannot write below `{}`", self.directory.display()))?
            .into_temp_path();
        let (digest, size) = write_hashed(&unfinished.to_path_buf(), write)?;
        let blob = self.blob(&digest);
        fs::rename(&unfinished, &blob).doing(|| format!("cannot write `{}`", blob.display()))?;
        Ok(Descriptor {
            media_type: media_type.to_owned(),
            digest,
            size,
        })
    }

    /// Adds a JSON document.
    pub fn add_json(&self, media_type: &str, document: &Value) -> Result<Descriptor> {
        self.add(media_type, |file| {
            file.write_all(document.to_string().as_bytes())
                .doing(|| "cannot write a document".to_owned())
        })
    }

    /// The file of a digest.
    pub fn blob(&self, digest: &str) -> PathBuf {
        self.directory.join("blobs").join(digest.replace(':', "/"))
    }

    /// Reads a JSON document.
    pub fn read_json(&self, digest: &str) -> Result<Value> {
        let path = self.blob(digest);
        let what = || format!("cannot read `{}`", path.display());
        let text = fs::read(&path).doing(what)?;
        serde_json::from_slice(&text)
            .map_err(std::io::Error::from)
            .doing(what)
    }

    /// Lets `name` point at a manifest.
    pub fn tag(&self, name: &str, manifest: &Descriptor) -> Result<()> {
        let text = serde_json::to_string(manifest)
            .map_err(std::io::Error::from)
            .doing(|| format!("cannot name image `{name}`"))?;
        places::write(&self.name_file(name), text)
    }

    /// The manifest a name points at.
    pub fn resolve(&self, name: &str) -> Result<Descriptor> {
        let Ok(text) = fs::read(self.name_file(name)) else {
            return refused(format!(
                "there is no image `{name}`: make it with `./x image`"
            ));
        };
        serde_json::from_slice(&text)
            .map_err(std::io::Error::from)
            .doing(|| format!("cannot read the name of image `{name}`"))
    }

    /// Slashes cannot be in a file name, and `%` cannot be in an image name.
    fn name_file(&self, name: &str) -> PathBuf {
        self.directory.join("names").join(name.replace('/', "%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::rootfs::Rootfs;
    use crate::image::{Image, export, started_as};

    fn small_image() -> Image {
        let mut rootfs = Rootfs::default();
        rootfs.text("/etc/motd", "hello\n");
        rootfs.link("/motd", "etc/motd");
        Image {
            name: "stowage.dev/small:1".to_owned(),
            rootfs,
            entrypoint: vec!["/motd".to_owned()],
            command: Vec::new(),
            labels: Vec::new(),
        }
    }

    #[test]
    fn the_same_files_give_the_same_digest() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = small_image()
            .build(&Store::at(one.path()).unwrap())
            .unwrap();
        let second = small_image()
            .build(&Store::at(two.path()).unwrap())
            .unwrap();
        assert_eq!(first.digest, second.digest);
        let mut other = small_image();
        other.rootfs.text("/etc/motd", "bye\n");
        assert_ne!(
            other.build(&Store::at(two.path()).unwrap()).unwrap().digest,
            first.digest
        );
    }

    #[test]
    fn an_export_holds_every_part_and_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::at(directory.path()).unwrap();
        let image = small_image();
        image.build(&store).unwrap();
        let file = directory.path().join("out/small.tar");
        export(&store, &[&image.name], &file).unwrap();
        let mut archive = tar::Archive::new(fs::File::open(&file).unwrap());
        let mut names: Vec<String> = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            if path == "manifest.json" {
                let docker: Value = serde_json::from_reader(&mut entry).unwrap();
                assert_eq!(docker[0]["RepoTags"][0], "stowage.dev/small:1");
            }
            names.push(path);
        }
        assert_eq!(
            names
                .iter()
                .filter(|name| name.starts_with("blobs/sha256/"))
                .count(),
            3
        );
        // Under another name it has other documents, and the same files.
        started_as(&store, &image.name, "stowage.dev/twin:1", &["/etc/motd"]).unwrap();
        export(&store, &[&image.name, "stowage.dev/twin:1"], &file).unwrap();
        let mut archive = tar::Archive::new(fs::File::open(&file).unwrap());
        assert_eq!(archive.entries().unwrap().count(), 3 + 5);
        let twin = store.resolve("stowage.dev/twin:1").unwrap();
        let twin = store.read_json(&twin.digest).unwrap();
        let config = store.read_json(twin["config"]["digest"].as_str().unwrap());
        assert_eq!(
            config.unwrap()["config"]["Entrypoint"],
            serde_json::json!(["/etc/motd"])
        );
        assert!(
            export(&store, &["stowage.dev/other:1"], &file)
                .unwrap_err()
                .to_string()
                .contains("./x image")
        );
    }
}
