//! What the machine itself can do: the fewest system calls that could keep a driver's promises.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::latency::Latency;

/// A volume that is exactly as durable as the driver's: a sparse file of its size, and a small record that is
/// written aside, synced and renamed.
pub async fn create(
    directory: &Path,
    count: usize,
    clients: usize,
    size: u64,
) -> anyhow::Result<Latency> {
    Latency::measure(0..count, clients, |number| {
        let directory = directory.to_owned();
        async move { tokio::task::spawn_blocking(move || write(&directory, number, size)).await? }
    })
    .await
}

fn write(directory: &Path, number: usize, size: u64) -> anyhow::Result<()> {
    let image = File::create(directory.join(format!("{number}.img")))?;
    image.set_len(size)?;
    image.sync_all()?;
    let (aside, place) = (
        directory.join(format!("{number}.new")),
        directory.join(format!("{number}.json")),
    );
    let mut record = File::create(&aside)?;
    record.write_all(&[b' '; 400])?;
    record.sync_all()?;
    fs::rename(aside, place)?;
    File::open(directory)?.sync_all()?;
    Ok(())
}
