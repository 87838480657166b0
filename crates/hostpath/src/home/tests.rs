use super::*;

fn directory(path: &str) -> Directory {
    Directory {
        path: path.into(),
        own_mount: false,
        memory: None,
        open_to: None,
        holds_volumes: false,
    }
}

fn machine() -> Surroundings {
    Surroundings {
        in_container: false,
        usual: directory(USUAL),
        temporary: directory(TEMPORARY),
        asked: None,
    }
}

fn container(change: impl FnOnce(&mut Surroundings)) -> Surroundings {
    let mut around = machine();
    around.in_container = true;
    change(&mut around);
    around
}

/// Where volumes live, how often is warned, and whether volumes are in danger.
fn told(around: &Surroundings, insisted: bool) -> Result<(String, usize, bool), Refusal> {
    let home = decide(around, insisted)?;
    let path = home.path.display().to_string();
    assert_eq!(home.condition().is_some(), home.danger.is_some());
    Ok((path, home.warnings.len(), home.danger.is_some()))
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "it is compared with what may be refused"
)]
fn usual() -> Result<(String, usize, bool), Refusal> {
    Ok((USUAL.to_owned(), 0, false))
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "it is compared with what may be refused"
)]
fn temporary(danger: bool) -> Result<(String, usize, bool), Refusal> {
    Ok((TEMPORARY.to_owned(), 1, danger))
}

#[test]
fn without_a_flag_volumes_live_where_they_outlive_the_container() {
    for (around, expected) in [
        (machine(), usual()),
        (container(|it| it.usual.own_mount = true), usual()),
        (
            container(|it| {
                it.usual.own_mount = true;
                it.temporary.own_mount = true;
            }),
            usual(),
        ),
        // The manifest of the original documentation.
        (
            container(|it| it.temporary.own_mount = true),
            temporary(false),
        ),
        (container(|_| ()), Err(Refusal::Nowhere)),
    ] {
        assert_eq!(told(&around, false), expected, "{around:?}");
    }
}

#[test]
fn volumes_of_an_older_driver_are_found_where_they_are() {
    let mut around = machine();
    around.temporary.holds_volumes = true;
    assert_eq!(told(&around, false), temporary(false));
    around.usual.holds_volumes = true;
    assert_eq!(told(&around, false), usual(), "they were moved");

    let mut around = machine();
    around.temporary.holds_volumes = true;
    around.temporary.open_to = Some(OpenTo::Owner(1000));
    assert_eq!(told(&around, false), usual(), "anybody could have made it");

    let layer = container(|it| it.temporary.holds_volumes = true);
    assert_eq!(
        told(&layer, false),
        temporary(true),
        "in the container's own layer"
    );
}

#[test]
fn an_empty_state_does_not_begin_where_it_is_not_safe() {
    let with = |memory, open_to, holds_volumes| {
        container(|it| {
            it.asked = Some(Directory {
                memory,
                open_to,
                holds_volumes,
                ..directory("/state")
            });
        })
    };
    let dangers = [
        (Some("tmpfs"), None, "tmpfs"),
        (Some("ramfs"), None, "ramfs"),
        (None, Some(OpenTo::Owner(1000)), "user 1000"),
        (None, Some(OpenTo::Mode(0o1777)), "1777"),
    ];
    for (memory, open_to, said) in dangers {
        let refusal = decide(&with(memory, open_to, false), false).unwrap_err();
        let text = refusal.to_string();
        for word in [said, "`/state`", "--statedir", "--allow-volatile-statedir"] {
            assert!(text.contains(word), "{text}");
        }
        let state = || "/state".to_owned();
        let insisted = told(&with(memory, open_to, false), true);
        assert_eq!(insisted, Ok((state(), 1, false)));
        // What is there must stay in reach.
        let full = told(&with(memory, open_to, true), false);
        assert_eq!(full, Ok((state(), 1, true)));
    }
    let flagged = told(&with(None, None, false), false);
    assert_eq!(flagged, Ok(("/state".to_owned(), 0, false)));
}

#[test]
fn the_default_is_judged_as_well() {
    let mut around = machine();
    around.usual.memory = Some("tmpfs");
    assert!(matches!(told(&around, false), Err(Refusal::Unsafe { .. })));
    let memory = container(|it| {
        it.temporary.own_mount = true;
        it.temporary.memory = Some("tmpfs");
    });
    assert!(matches!(told(&memory, false), Err(Refusal::Unsafe { .. })));
}
