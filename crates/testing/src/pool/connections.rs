//! Who is still connected to a server: a test that was killed may have left processes that would write into the next one's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// In the fourth column of the kernel's table.
const ESTABLISHED: &str = "01";

/// How many connections to a port of this machine belong to other processes than these.
pub(super) fn of_others(port: u16, known: &[u32]) -> std::io::Result<usize> {
    let table = fs::read_to_string("/proc/net/tcp")?;
    let mut sockets = to_port(&table, port);
    for process in known {
        for held in sockets_of(*process) {
            sockets.remove(&held);
        }
    }
    Ok(sockets.len())
}

/// The sockets of the kernel's table whose other end is this port.
fn to_port(table: &str, port: u16) -> BTreeSet<u64> {
    let end = format!(":{port:04X}");
    let rows = table.lines().skip(1);
    let socket = |row: &str| {
        let columns: Vec<_> = row.split_whitespace().collect();
        let [_, _, remote, state, _, _, _, _, _, inode, ..] = columns.as_slice() else {
            return None;
        };
        let is_open = remote.ends_with(&end) && *state == ESTABLISHED;
        is_open.then(|| inode.parse().ok()).flatten()
    };
    rows.filter_map(socket).collect()
}

fn sockets_of(process: u32) -> Vec<u64> {
    let held = fs::read_dir(format!("/proc/{process}/fd"));
    let held = held.into_iter().flatten().flatten();
    let number = |path: &Path| {
        let target = fs::read_link(path).ok()?;
        let target = target.to_str()?;
        let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    };
    held.filter_map(|entry| number(&entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_counts_until_it_is_closed_unless_its_process_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(of_others(port, &[]).unwrap(), 0);
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(of_others(port, &[]).unwrap(), 1);
        assert_eq!(of_others(port, &[std::process::id()]).unwrap(), 0);
        drop(stream);
        assert_eq!(of_others(port, &[]).unwrap(), 0);
    }
}
