//! What a pod wrote to a raw block volume is there for the next one, whoever else has the device open.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use stowage_host::loopdev::Loops;

use crate::crash::entries;
use crate::rig::{Rig, block};
use crate::support::{MIB, isolated};

fn image(rig: &Rig) -> PathBuf {
    let files = entries(&rig.state.join("volumes")).into_iter();
    let mut found = files.filter(|path| path.extension().is_some_and(|is| is == "img"));
    found.next().unwrap()
}

fn begins_with(image: &Path) -> [u8; 64] {
    let mut head = [0; 64];
    File::open(image).unwrap().read_exact(&mut head).unwrap();
    head
}

/// Writes into the cache of a device, as a program does that never syncs.
fn write(device: &Path, byte: u8) -> File {
    let file = fs::OpenOptions::new().write(true).open(device).unwrap();
    file.write_all_at(&[byte; 64], 0).unwrap();
    file
}

isolated! {
    async fn what_was_written_last_is_in_the_image_when_a_raw_volume_is_taken_away(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let (id, target) = rig.in_use("raw", 8 * MIB, &block()).await;
        let image = image(&rig);
        // Somebody has it open, so that the kernel does not write it out when the pod ends.
        let file = File::open(&image).unwrap();
        let device = Loops::default().find(&file).unwrap().remove(0);
        drop(write(&target, 1));
        rig.unpublish(&id, "raw").await.unwrap();
        assert_eq!(begins_with(&image), [1; 64], "after NodeUnpublishVolume");

        let late = write(device.path(), 2);
        rig.unstage(&id).await.unwrap();
        assert_eq!(begins_with(&image), [2; 64], "after NodeUnstageVolume");
        drop((late, device));
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }
}
