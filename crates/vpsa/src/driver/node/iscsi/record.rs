//! The file in which open-iscsi keeps the settings of a target: `<records>/<target>/<ip>,<port>,<group>/default`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use stowage_host::blocking;

/// Begins the settings of logins.
const AUTH: &str = "node.session.auth.";

/// Writes user and secret of logins. Called twice: the file says so.
pub(super) async fn write_chap(
    records: &Path,
    target: &str,
    portal: &str,
    user: &str,
    secret: &SecretString,
) -> io::Result<()> {
    let (portals, portal) = (records.join(target), portal.to_owned());
    let (user, secret) = (user.to_owned(), secret.clone());
    blocking(move || {
        let file = find(&portals, &portal)?;
        let text = fs::read_to_string(&file)?;
        let settings = with_chap(&text, &user, secret.expose_secret());
        let next = file.with_extension("stowage");
        let mut written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&next)?;
        written.write_all(settings.as_bytes())?;
        written.sync_all()?;
        fs::rename(next, file)
    })
    .await
}

/// The file of a portal; it is one itself with older versions.
fn find(portals: &Path, portal: &str) -> io::Result<PathBuf> {
    let (address, port) = portal.rsplit_once(':').unwrap_or((portal, ""));
    let start = format!("{},{port},", address.trim_matches(['[', ']']));
    for entry in fs::read_dir(portals)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&start) {
            let path = entry.path();
            return Ok(if path.is_dir() {
                path.join("default")
            } else {
                path
            });
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!(
            "{} has no record that begins with {start}",
            portals.display()
        ),
    ))
}

/// The settings with these of logins in place of others, before the line that ends the record.
fn with_chap(settings: &str, user: &str, secret: &str) -> String {
    let replaced = ["authmethod", "username", "password"].map(|name| format!("{AUTH}{name} "));
    let is_kept = |line: &&str| !replaced.iter().any(|name| line.starts_with(name.as_str()));
    let is_end = |line: &&str| line.starts_with("# END");
    let lines: Vec<&str> = settings.lines().filter(is_kept).collect();
    let (end, kept): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(is_end);
    let own = [
        format!("{AUTH}authmethod = CHAP"),
        format!("{AUTH}username = {user}"),
        format!("{AUTH}password = {secret}"),
    ];
    let own = own.iter().map(String::as_str);
    let mut text: String = kept
        .into_iter()
        .chain(own)
        .chain(end)
        .flat_map(|line| [line, "\n"])
        .collect();
    text.shrink_to_fit();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_replaces_the_one_before_and_nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let records = tempfile::tempdir().unwrap();
        let portal = records.path().join("iqn.a/10.0.0.1,3260,1");
        fs::create_dir_all(&portal).unwrap();
        let file = portal.join("default");
        let before = "# BEGIN RECORD 2.1\nnode.startup = manual\nnode.session.auth.authmethod = None\n# END RECORD\n";
        fs::write(&file, before).unwrap();
        for secret in ["one", "two", "two"] {
            let secret = SecretString::from(secret);
            let written = write_chap(records.path(), "iqn.a", "10.0.0.1:3260", "user", &secret);
            written.await.unwrap();
        }
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "# BEGIN RECORD 2.1\nnode.startup = manual\nnode.session.auth.authmethod = CHAP\n\
             node.session.auth.username = user\nnode.session.auth.password = two\n# END RECORD\n"
        );
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = write_chap(records.path(), "iqn.a", "10.0.0.2:3260", "u", &"s".into()).await;
        assert!(other.unwrap_err().to_string().contains("10.0.0.2,3260,"));
    }
}
