use super::*;

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

fn parse(more: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
    let mut class = map(&[("volumeType", "dir/v1"), ("filesystemName", "default")]);
    class.extend(map(more));
    Parameters::parse(&class, &BTreeMap::new(), &Vocabulary::default())
}

#[test]
fn a_class_that_says_little_gets_sane_defaults() {
    let parameters = parse(&[]).unwrap();
    let default = ClassBacking::Directory("default".to_owned());
    assert_eq!(parameters.backing, default);
    assert_eq!(parameters.grace_seconds, 0);
    assert_eq!(parameters.enforcement, Enforcement::Hard);
    let owner = Owner {
        permissions: 0o750,
        uid: None,
        gid: None,
    };
    assert_eq!(parameters.owner, owner);
    assert!(!parameters.encrypted);
}

#[test]
fn permissions_are_octal_however_they_are_written() {
    for (text, mode) in [
        ("0775", 0o775),
        ("775", 0o775),
        ("0o775", 0o775),
        ("2770", 0o2770),
        ("01777", 0o1777),
        ("0", 0),
    ] {
        let owner = parse(&[("permissions", text)]).unwrap().owner;
        assert_eq!(owner.permissions, mode, "{text}");
    }
    for text in [
        "abc",
        "0789",
        "-1",
        "+7",
        "17777",
        "rwxr-x---",
        "0x1ff",
        "7 7",
    ] {
        let error = parse(&[("permissions", text)]).unwrap_err();
        assert_eq!(error, ParameterError::Permissions(text.to_owned()));
    }
}

#[test]
fn owners_are_numbers_within_range() {
    let owner = parse(&[("ownerUid", "1001"), ("ownerGid", "4294967294")])
        .unwrap()
        .owner;
    assert_eq!((owner.uid, owner.gid), (Some(1001), Some(4_294_967_294)));
    for value in ["-1", "4294967295", "4294967296", "root", "1e3", "+1"] {
        let error = parse(&[("ownerUid", value)]).unwrap_err();
        assert!(error.to_string().contains("`ownerUid`"), "{error}");
    }
}

#[test]
fn enforcement_is_one_of_two_words_and_may_change() {
    let class = map(&[
        ("volumeType", "dir/v1"),
        ("filesystemName", "fs"),
        ("capacityEnforcement", "SOFT"),
    ]);
    let soft = Parameters::parse(&class, &BTreeMap::new(), &Vocabulary::default()).unwrap();
    assert_eq!(soft.enforcement, Enforcement::Soft);
    let over = map(&[("capacityEnforcement", "HARD")]);
    let hard = Parameters::parse(&class, &over, &Vocabulary::default()).unwrap();
    assert_eq!(hard.enforcement, Enforcement::Hard);
    assert!(parse(&[("capacityEnforcement", "hard")]).is_err());
    let other = enforcement(&map(&[("permissions", "0777")])).unwrap_err();
    assert!(
        other
            .to_string()
            .starts_with("parameter `permissions` cannot be changed"),
        "{other}"
    );
}

#[test]
fn a_class_says_what_its_volumes_are() {
    let parse = |class: &[(&str, &str)]| {
        Parameters::parse(&map(class), &BTreeMap::new(), &Vocabulary::default())
    };
    let filesystem = |least_bytes, encryption| {
        ClassBacking::Filesystem(NewFilesystemParameters {
            group: "default".to_owned(),
            least_bytes,
            encryption,
        })
    };
    let group = ("filesystemGroupName", "default");
    for (class, backing) in [
        (
            vec![("filesystemName", "fs"), ("volumeType", "dir/v1")],
            ClassBacking::Directory("fs".to_owned()),
        ),
        (
            vec![("filesystemName", "fs")],
            ClassBacking::Snapshot("fs".to_owned()),
        ),
        (
            vec![("filesystemName", "fs"), ("volumeType", "weka/v2"), group],
            ClassBacking::Snapshot("fs".to_owned()),
        ),
        (vec![group], filesystem(0, Encryption::default())),
        (
            vec![
                group,
                ("volumeType", "weka/v2"),
                ("initialFilesystemSizeGB", "100"),
            ],
            filesystem(100_000_000_000, Encryption::default()),
        ),
        (
            vec![
                group,
                ("encryptWithoutKms", "true"),
                ("kmsVaultKeyIdentifier", "key"),
                ("kmsVaultNamespace", "team"),
            ],
            filesystem(
                0,
                Encryption {
                    without_kms: true,
                    key: Some("key".to_owned()),
                    namespace: Some("team".to_owned()),
                },
            ),
        ),
    ] {
        assert_eq!(parse(&class).unwrap().backing, backing, "{class:?}");
    }
    for (class, word) in [
        (vec![], "`filesystemGroupName`"),
        (vec![("volumeType", "dir/v1"), group], "`filesystemName`"),
        (vec![("filesystemGroupName", "")], "`filesystemGroupName`"),
        (
            vec![("filesystemName", "fs"), ("volumeType", "directory")],
            "`directory`",
        ),
        (
            vec![group, ("initialFilesystemSizeGB", "0")],
            "`initialFilesystemSizeGB`",
        ),
        (
            vec![group, ("initialFilesystemSizeGB", "1.5")],
            "`initialFilesystemSizeGB`",
        ),
        (
            vec![group, ("encryptWithoutKms", "yes")],
            "`encryptWithoutKms`",
        ),
    ] {
        let error = parse(&class).unwrap_err().to_string();
        assert!(error.contains(word), "{class:?}: {error}");
    }
}

#[test]
fn a_soft_limit_may_have_a_grace_period() {
    for (text, seconds) in [("72h", 72 * 3600), ("1h30m", 5400), ("0", 0), ("90s", 90)] {
        let grace = [("quotaGracePeriod", text)];
        assert_eq!(parse(&grace).unwrap().grace_seconds, seconds, "{text}");
    }
    for text in ["soon", "-1h", "500ms", "10"] {
        let error = parse(&[("quotaGracePeriod", text)]).unwrap_err();
        assert_eq!(error, ParameterError::GracePeriod(text.to_owned()));
    }
    let context = map(&[("capacityEnforcement", "SOFT"), ("quotaGracePeriod", "1h")]);
    assert_eq!(
        enforcement_of_volume(&context),
        Ok((Enforcement::Soft, 3600))
    );
    assert_eq!(enforcement_of_volume(&map(&[])), Ok((Enforcement::Hard, 0)));
}

#[test]
fn what_no_driver_can_do_is_refused_by_name() {
    assert!(parse(&[("manageEncryptionKeys", "true")]).is_err());
    assert!(parse(&[("encryptionEnabled", "yes")]).is_err());
    assert!(parse(&[("mountOptions", "writecache,no_such_option")]).is_err());
}
