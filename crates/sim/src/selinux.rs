//! What a node with SELinux does with the labels of mounts, on a machine whose kernel has no SELinux.
//!
//! There `mount(8)` takes labels away before anybody sees them. [`MOUNT`] stands in for it: it passes them on under other names, and
//! says that the kernel has SELinux. The helpers judge labels as that kernel does. One thing is stricter: a mount without a
//! label is refused, because no container of such a node could use it.

use crate::mounting::Request;

/// `mount`, laid over the real one by [`mounting::install`](crate::mounting::install). What it changes are the options, which are
/// those of `-o`, or in a table of mounts.
pub const MOUNT: &str = r#"#!/bin/sh
rename='s/\(^\|[, ]\)\(fs\|def\|root\|\)context=/\1selinux-\2context=/g'
before= table=
for word do
    shift
    case $before in
    -o) changed=$(printf '%s\n' "$word,selinux" | sed "$rename") ;;
    --fstab) table=$(mktemp) changed=$table
        sed -e "$rename" -e 's/^\([^ ]* [^ ]* [^ ]* [^ ]*\)/\1,selinux/' "$word" > "$table" ;;
    *) changed=$word ;;
    esac
    before=$word
    set -- "$@" "$changed"
done
/usr/bin/mount "$@"
status=$?
[ -z "$table" ] || rm "$table"
exit $status
"#;

/// Says that the kernel has SELinux.
const KERNEL: &str = "selinux";

/// Begins the names of labels.
const PREFIX: &str = "selinux-";

/// The types that the policy of a node declares for volumes.
pub const OF_WEKAFS: [&str; 3] = ["wekafs_t", "wekafs_filesystem_t", "wekafs_csi_volume_t"];

/// The type of files on NFS.
pub const OF_NFS: [&str; 1] = ["nfs_t"];

/// Why the kernel does not mount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLabel {
    /// Not a label at all, or of a type that no policy declares.
    #[error("wrong fs type, bad option: `{0}` is not a valid SELinux context")]
    Invalid(String),
    /// There is none.
    #[error("the mount has no SELinux context, so containers could not use it")]
    Missing,
}

/// Takes the labels off a request, as the kernel does before a filesystem sees the options. Without SELinux there are none.
pub fn judge(request: &mut Request, types: &[&str]) -> Result<(), BadLabel> {
    let (ours, others) = std::mem::take(&mut request.options)
        .into_iter()
        .partition::<Vec<_>, _>(|option| option == KERNEL || option.starts_with(PREFIX));
    request.options = others;
    let has_selinux = ours.iter().any(|option| option == KERNEL);
    let labels: Vec<_> = ours
        .iter()
        .filter_map(|option| Some(option.strip_prefix(PREFIX)?.split_once('=')?.1))
        .collect();
    for label in &labels {
        if !is_known(label, types) {
            return Err(BadLabel::Invalid((*label).to_owned()));
        }
    }
    if has_selinux && labels.is_empty() {
        return Err(BadLabel::Missing);
    }
    Ok(())
}

/// `user:role:type:level`, with a type that is declared.
fn is_known(label: &str, types: &[&str]) -> bool {
    let parts: Vec<_> = label.splitn(4, ':').collect();
    match parts.as_slice() {
        ["system_u", "object_r", kind, level] => types.contains(kind) && level.starts_with("s0"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_judged_and_taken_off() {
        let fine = "selinux-fscontext=system_u:object_r:wekafs_csi_volume_t:s0";
        for (options, expected) in [
            (vec!["acl"], Ok(())),
            (vec!["acl", fine, "selinux"], Ok(())),
            (vec!["acl", "selinux"], Err(BadLabel::Missing)),
            (
                vec![
                    "acl",
                    "selinux",
                    "selinux-fscontext=system_u:object_r:wekafs_t",
                ],
                Err(BadLabel::Invalid("system_u:object_r:wekafs_t".to_owned())),
            ),
            (
                vec![
                    "acl",
                    "selinux",
                    "selinux-context=\"system_u:object_r:wekafs_t:s0\"",
                ],
                Err(BadLabel::Invalid(
                    "\"system_u:object_r:wekafs_t:s0\"".to_owned(),
                )),
            ),
            (
                vec![
                    "acl",
                    "selinux",
                    "selinux-context=system_u:object_r:nfs_t:s0",
                ],
                Err(BadLabel::Invalid("system_u:object_r:nfs_t:s0".to_owned())),
            ),
        ] {
            let mut request = Request {
                options: options.iter().map(ToString::to_string).collect(),
                ..Request::default()
            };
            assert_eq!(judge(&mut request, &OF_WEKAFS), expected, "{options:?}");
            assert_eq!(request.options, ["acl"], "{options:?}");
        }
    }
}
