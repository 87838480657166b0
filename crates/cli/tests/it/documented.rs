//! The commands of `simulators.md`, `hostpath.md`, `conformance.md` and `sidecar.md` in `docs/guides`, as their readers type them, each page
//! on a machine of its own: a copy of this one's files that nobody else sees, with its own network and processes, so that ports and places are
//! those of the page and nothing stays. Needs root, /dev/fuse, loop devices, curl and jq.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use devcluster::testing::ApiServer;
use devcluster::testing::documented::script;

/// Makes the machine in the directory `$1` with the program `$2`, runs `$1/script` on it, and lets go of loop devices, which
/// belong to the whole machine: known by the number of the filesystem that their files are on.
///
/// Pages make many copies of the program: without what debuggers need, and on disk, as `/run` and `/usr/local` are. So are volumes of the
/// embedded driver, which takes no memory for a place to keep them. Other changes are in memory.
const MACHINE: &str = r#"
set -eu
cd "$1"
mkdir memory run local local/bin
strip -o local/bin/stowage "$2"
mv script .curlrc kubeconfig run
mount -t tmpfs machine memory
cd memory
mkdir changes work root
mount -t overlay machine -o lowerdir=/,upperdir="$PWD/changes",workdir="$PWD/work" root
cd root
mount -t tmpfs machine tmp
mount -t tmpfs machine var/tmp
truncate -s 16G "$1/disk"
mkfs.ext4 -q "$1/disk"
mkdir -p var/lib/stowage
mount -o loop "$1/disk" var/lib/stowage
mount --bind "$1/run" run
mount --bind "$1/local" usr/local
mount --rbind /dev dev
mount --rbind /sys sys
if [ -z "${KUBECONFIG:-}" ]; then ip link set lo up; fi
code=0
timeout --signal=KILL 240 unshare --pid --fork --kill-child --mount-proc --root="$PWD" --wd=/root \
  bash /run/script || code=$?
for place in tmp var/tmp var/lib/stowage; do
  number=$(mountpoint --fs-devno $place)
  losetup --list --noheadings --output NAME,BACK-MAJ:MIN | while read -r device back; do
    if [ "$back" = "$number" ]; then losetup --detach "$device"; fi
  done
done
exit $code
"#;

/// An answer that refuses ends a page, as a command that fails does.
const CURLRC: &str = "fail-with-body\nshow-error\n";

/// Runs the commands of a page after those of `before`; what all of them printed. The API server is on the network of the machine that
/// tests run on, so who uses it is there, too.
fn run(page: &str, before: &str, server: Option<&ApiServer>) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/guides/{page}"));
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let script = format!("exec 2>&1\n{before}\n{}", script(&page).unwrap());
    fs::write(place.join("script"), script).unwrap();
    fs::write(place.join(".curlrc"), CURLRC).unwrap();
    fs::write(place.join("machine"), MACHINE).unwrap();
    let mut command = Command::new("unshare");
    command.env_clear();
    match server {
        Some(server) => {
            fs::copy(server.kubeconfig(), place.join("kubeconfig")).unwrap();
            command.env("KUBECONFIG", "/run/kubeconfig");
        }
        None => {
            fs::write(place.join("kubeconfig"), "").unwrap();
            command.arg("--net");
        }
    }
    let output = command
        .args(["--mount", "--propagation", "private", "bash"])
        .args([&place.join("machine"), place])
        .arg(env!("CARGO_BIN_EXE_stowage"))
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
        .env("HOME", "/root")
        .env("CURL_HOME", "/run")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let (page, status) = (page.display(), output.status);
    assert!(status.success(), "{page}: {status}\n{said}");
    said
}

/// Each of these is printed, in this order.
fn must_say(said: &str, parts: &[&str]) {
    let mut rest = said;
    for part in parts {
        let found = rest.split_once(part);
        rest = found.unwrap_or_else(|| panic!("no `{part}` in:\n{said}")).1;
    }
}

#[test]
fn the_guide_to_simulators_can_be_followed() {
    let said = run("simulators.md", "", None);
    must_say(
        &said,
        &[
            "\"release\": \"5.1.0\"",
            "\"ADDING\"\n\"/\"\n",
            "default        104857600",
            "\"rule\": \"127.0.0.1/255.255.255.255\"",
            "127.0.0.2:/default 104857600",
            "\"refuse\": 503",
            "\"done_but_dropped\"",
            "\"name\": \"pool-00010001\"",
            "\"status\": 0",
            "\"status\": 0",
            "share\nIn-use",
            "disk\nIn-use",
            "127.0.0.1:/export/share  10485760",
            "successful.",
            "-lun-0 -> /dev/loop",
            "Logout of",
        ],
    );
}

#[test]
fn the_guide_to_the_embedded_driver_can_be_followed() {
    let said = run("hostpath.md", "", None);
    must_say(
        &said,
        &["makes a volume of the size it is asked for", " 0 failed"],
    );
}

/// These pages are about the reader's own driver: here it is the embedded one, once whole and once in two halves. With xfs, which grows
/// on machines without `CAP_SYS_RESOURCE`, too.
const DRIVERS: &str = "
for place in csi c n; do mkdir /$place; done
driver() { stowage driver hostpath --nodeid node --default-fstype xfs --v 0 \"$@\" & }
driver --endpoint unix:///csi/csi.sock
driver --endpoint unix:///c/csi.sock --statedir /var/lib/stowage/halves --mode controller
driver --endpoint unix:///n/csi.sock --statedir /var/lib/stowage/halves --mode node
";

#[test]
fn the_guide_to_conformance_can_be_followed() {
    let said = run("conformance.md", DRIVERS, None);
    let ends = said.lines().filter(|line| line.contains(" 0 failed, "));
    assert_eq!(ends.count(), 4, "{said}");
    let guide = include_str!("../../../../docs/guides/conformance.md");
    let list = said.rsplit_once(" 0 failed, ").unwrap().1;
    let is_case = |line: &&str| line.starts_with(|it: char| it.is_ascii_uppercase());
    let cases = list.lines().filter(is_case).count();
    assert!(
        guide.contains(&format!(" {cases} cases")),
        "{cases} cases:\n{list}"
    );
}

#[test]
fn the_guide_to_the_sidecar_can_be_followed() {
    let server = stowage_testing::api_server();
    let said = run("sidecar.md", DRIVERS, Some(&server));
    must_say(&said, &["VOLUME", "IF THE CLAIM IS GONE"]);
}
