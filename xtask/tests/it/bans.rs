//! Everything that `clippy.toml` bans is found by clippy. A path with a typing error would ban nothing, and nobody would see.

use std::fs;
use std::path::Path;
use std::process::Command;

use toml::Table;

/// A line for every ban.
const CODE: &str = r#"
pub fn run() {
    let _ = std::process::Command::new("x");
    let _ = tokio::process::Command::new("x");
    std::thread::sleep(std::time::Duration::ZERO);
    let _ = std::net::TcpStream::connect("x:1");
    let _ = std::net::ToSocketAddrs::to_socket_addrs("x:1");
    tokio::runtime::Handle.block_on(async {});
    tokio::task::block_in_place(|| ());
    futures::executor::block_on(async {});
}
pub struct Locks(
    pub std::sync::Mutex<()>,
    pub std::sync::RwLock<()>,
    pub std::sync::Condvar,
);
pub async fn held(entered: tracing::span::Entered) {
    std::future::ready(()).await;
    drop(entered);
}
pub async fn held_too(entered: tracing::span::EnteredSpan) {
    std::future::ready(()).await;
    drop(entered);
}
"#;

/// What the code calls, under the names by which clippy knows it: no crate has to be built for this.
const STAND_INS: [(&str, &str); 3] = [
    (
        "tokio",
        "pub mod process { pub struct Command; impl Command { pub fn new(_: &str) -> Self { Self } } }
         pub mod runtime { pub struct Handle; impl Handle { pub fn block_on(&self, _: impl Future) {} } }
         pub mod task { pub fn block_in_place(_: impl FnOnce()) {} }",
    ),
    ("futures", "pub mod executor { pub fn block_on(_: impl Future) {} }"),
    ("tracing", "pub mod span { pub struct Entered; pub struct EnteredSpan; }"),
];

#[test]
fn everything_that_is_banned_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = tempfile::tempdir().unwrap();
    let dependencies = STAND_INS.map(|(name, _)| format!("{name} = {{ path = \"{name}\" }}\n"));
    let dependencies = format!("[dependencies]\n{}\n[workspace]\n", dependencies.concat());
    write_package(directory.path(), "code", CODE, &dependencies);
    for (name, code) in STAND_INS {
        write_package(&directory.path().join(name), name, code, "");
    }
    let output = Command::new("cargo")
        .args(["clippy", "--quiet", "--offline"])
        .current_dir(directory.path())
        .env("CLIPPY_CONF_DIR", root.canonicalize().unwrap())
        .env("CARGO_TARGET_DIR", directory.path().join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let clippy: Table = fs::read_to_string(root.join("clippy.toml"))
        .unwrap()
        .parse()
        .unwrap();
    for (list, finding) in [
        ("disallowed-methods", "use of a disallowed method"),
        ("disallowed-types", "use of a disallowed type"),
        (
            "await-holding-invalid-types",
            "holding a disallowed type across an await point",
        ),
    ] {
        for ban in clippy[list].as_array().unwrap() {
            let (path, reason) = (
                ban["path"].as_str().unwrap(),
                ban["reason"].as_str().unwrap(),
            );
            assert!(
                said.contains(&format!("{finding} `{path}`")),
                "{path} is not found: {said}"
            );
            assert!(said.contains(reason), "{path} has another reason: {said}");
        }
    }
}

fn write_package(directory: &Path, name: &str, code: &str, more: &str) {
    let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n{more}");
    fs::create_dir_all(directory.join("src")).unwrap();
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    fs::write(directory.join("src/lib.rs"), code).unwrap();
}
