//! The SELinux policy of `selinux/`: compiled, linked with Debian's policy and queried there. No kernel with SELinux is needed.
//!
//! After a change of its source: `STOWAGE_UPDATE_GOLDEN=1 cargo test -p stowage-weka --test it policy`.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::process::capture;
use devcluster::testing::SelinuxTools;

/// Of the format of modules: the newest that all enterprise Linuxes from RHEL 7 on can read.
const MODULE_VERSION: &str = "17";

/// Debian's policy has no containers; what `container-selinux` declares of them elsewhere is enough here.
const CONTAINERS: &str = "module container 1.0;
require { attribute domain; role system_r; }
type container_t, domain;
role system_r types container_t;
";

/// What a container must be able to do with volumes, by class.
const NEEDED: [(&str, &[&str]); 6] = [
    (
        "dir",
        &[
            "create", "read", "rename", "rmdir", "search", "watch", "write",
        ],
    ),
    ("fifo_file", &["create", "open", "read", "unlink", "write"]),
    (
        "file",
        &[
            "append",
            "create",
            "entrypoint",
            "execute",
            "execute_no_trans",
            "lock",
            "map",
            "read",
            "rename",
            "setattr",
            "unlink",
            "write",
        ],
    ),
    ("filesystem", &["getattr"]),
    ("lnk_file", &["create", "read", "unlink"]),
    ("sock_file", &["create", "getattr", "unlink", "write"]),
];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../selinux")
}

/// What is built, in a directory of its own.
struct Workshop {
    tools: SelinuxTools,
    directory: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        Self {
            tools: SelinuxTools::ensure().unwrap(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tool(&self, name: &str, arguments: &[&Path]) -> String {
        run(self.tools.command(name).args(arguments))
    }

    /// Builds a package of a source, as the guide does; `version` is of the format of modules.
    fn package(&self, source: &Path, version: Option<&str>) -> PathBuf {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let (module, package) = (
            self.place(&format!("{name}.mod")),
            self.place(&format!("{name}.pp")),
        );
        let mut compile = self.tools.command("checkmodule");
        compile.args(["-M", "-m", "-o"]).arg(&module);
        if let Some(version) = version {
            compile.args(["-c", version]);
        }
        run(compile.arg(source));
        self.tool(
            "semodule_package",
            &["-o".as_ref(), &package, "-m".as_ref(), &module],
        );
        package
    }

    fn containers(&self) -> PathBuf {
        let source = self.place("container.te");
        std::fs::write(&source, CONTAINERS).unwrap();
        self.package(&source, None)
    }

    /// A package as text.
    fn text(&self, package: &Path) -> PathBuf {
        let text = package.with_extension("cil");
        let text = self.place(text.file_name().unwrap().to_str().unwrap());
        run(self.tools.to_text().arg(package).arg(&text));
        text
    }

    /// A policy for a kernel, of packages that need each other.
    fn link(&self, packages: &[&Path]) -> Result<PathBuf, devcluster::error::Error> {
        let (linked, policy) = (self.place("linked"), self.place("policy"));
        capture(
            self.tools
                .command("semodule_link")
                .arg("-o")
                .arg(&linked)
                .args(packages),
        )?;
        self.tool("semodule_expand", &[&linked, &policy]);
        Ok(policy)
    }

    /// What the rules between two types allow, by class, and when.
    fn rules(&self, policy: &Path) -> Vec<String> {
        let found = run(self
            .tools
            .command("sesearch")
            .args(["-A", "-s", "container_t", "-t", "wekafs_t"])
            .arg(policy));
        found
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

fn run(command: &mut Command) -> String {
    capture(command).unwrap()
}

#[track_caller]
fn assert_only_by_the_boolean(rules: &[String]) {
    for rule in rules {
        assert!(rule.ends_with("[ container_use_wekafs ]:True"), "{rule}");
    }
    for (class, permissions) in NEEDED {
        let of_class = format!("wekafs_t:{class} ");
        let allowed: String = rules
            .iter()
            .filter(|rule| rule.contains(&of_class))
            .cloned()
            .collect();
        for permission in permissions {
            let is_allowed = allowed.split([' ', ';']).any(|word| word == *permission);
            assert!(is_allowed, "{class} {permission}: {allowed}");
        }
    }
}

#[test]
fn packages_are_what_their_source_builds_to() {
    let workshop = Workshop::new();
    let package = workshop.package(&sources().join("csi-wekafs.te"), Some(MODULE_VERSION));
    let text = workshop.text(&package);
    for built in [package, text] {
        let committed = sources().join(built.file_name().unwrap());
        if std::env::var_os("STOWAGE_UPDATE_GOLDEN").is_some() {
            std::fs::copy(&built, &committed).unwrap();
        }
        let same = std::fs::read(&built).unwrap() == std::fs::read(&committed).unwrap_or_default();
        assert!(
            same,
            "{} is not what its source builds to",
            committed.display()
        );
    }
}

#[test]
fn containers_reach_volumes_only_while_the_boolean_is_on() {
    let workshop = Workshop::new();
    let (base, containers) = (workshop.tools.base_policy(), workshop.containers());
    let committed = sources().join("csi-wekafs.pp");
    // As people build it themselves where the package does not fit.
    let built = workshop.package(&sources().join("csi-wekafs.te"), None);
    for package in [&committed, &built] {
        let policy = workshop.link(&[&base, &containers, package]).unwrap();
        assert_only_by_the_boolean(&workshop.rules(&policy));
        let describe = |option: &str, name: &str| {
            run(workshop
                .tools
                .command("seinfo")
                .args([option, name, "-x"])
                .arg(&policy))
        };
        assert!(
            describe("-b", "container_use_wekafs").contains("bool container_use_wekafs false;")
        );
        let described = describe("-t", "wekafs_csi_volume_t");
        for word in [
            "type wekafs_t alias",
            "wekafs_filesystem_t",
            "file_type",
            "spoolfile",
        ] {
            assert!(described.contains(word), "{word}: {described}");
        }
    }
    let refused = workshop.link(&[&base, &committed]).unwrap_err();
    assert!(
        refused.to_string().contains("container_t"),
        "a node without containers: {refused}"
    );
    let policy = workshop.link(&[&base, &containers]).unwrap();
    let asked = workshop
        .tools
        .command("seinfo")
        .args(["-t", "wekafs_t"])
        .arg(&policy)
        .output()
        .unwrap();
    assert!(
        !String::from_utf8_lossy(&asked.stdout).contains("wekafs_t"),
        "nobody else declares it"
    );
}

#[test]
fn the_text_is_the_same_policy() {
    let workshop = Workshop::new();
    let base = workshop.text(&workshop.tools.base_policy());
    // Who logs in as whom is in other parts of Debian's policy.
    let all = std::fs::read_to_string(&base).unwrap();
    let kept: Vec<_> = all
        .lines()
        .filter(|line| !line.starts_with("(selinuxuser"))
        .collect();
    std::fs::write(&base, kept.join("\n")).unwrap();
    let containers = workshop.text(&workshop.containers());
    let (policy, contexts) = (workshop.place("policy"), workshop.place("contexts"));
    let mut compile = workshop.tools.command("secilc");
    compile
        .args(["-M", "true", "-o"])
        .arg(&policy)
        .arg("-f")
        .arg(&contexts);
    run(compile.args([&base, &containers, &sources().join("csi-wekafs.cil")]));
    assert_only_by_the_boolean(&workshop.rules(&policy));
}
