//! What can be said to `iscsiadm`: the part of its language that a driver needs.

use std::net::{IpAddr, SocketAddr};

/// The port of iSCSI.
const PORT: u16 = 3260;

/// Something that `iscsiadm` does. It has no `Debug`: a value may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Command {
    /// `--version`.
    Version,
    /// `-m discovery -t sendtargets -p PORTAL`: asks for targets, and makes records of them.
    Discover(SocketAddr),
    /// `-m node -o new`.
    New {
        /// Of which target.
        place: Place,
        /// The group of its portal, if it was said.
        group: Option<u16>,
    },
    /// `-m node -o delete`.
    Delete(Which),
    /// `-m node -o update -n NAME -v VALUE`.
    Update {
        /// Of these records.
        which: Which,
        /// Which setting.
        name: String,
        /// What it is to be.
        value: String,
    },
    /// `-m node`, with or without `-o show`.
    Show(Which),
    /// `-m node --login`.
    LogIn(Which),
    /// `-m node --logout`.
    LogOut(Which),
    /// `-m node --rescan`, `-m session --rescan`.
    Rescan(Which),
    /// `-m session`, with or without `-P 1`.
    Sessions {
        /// Of these.
        which: Which,
        /// Their interfaces, too.
        detailed: bool,
    },
    /// `-m iface -o new`.
    NewInterface(String),
    /// `-m iface -o delete`.
    DeleteInterface(String),
}

/// The interface that is meant where none is named.
pub const DEFAULT_INTERFACE: &str = "default";

/// A target at a portal, through an interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its name.
    pub target: String,
    /// Where.
    pub portal: SocketAddr,
    /// Through which.
    pub interface: String,
}

/// Which of those that are known; what is not said is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// The target.
    pub target: Option<String>,
    /// The portal.
    pub portal: Option<SocketAddr>,
    /// The interface.
    pub interface: Option<String>,
    /// The number of the session.
    pub session: Option<u32>,
}

impl Which {
    /// Whether a place is one of them.
    pub fn includes(&self, place: &Place) -> bool {
        self.target.as_ref().is_none_or(|it| *it == place.target)
            && self.portal.is_none_or(|it| it == place.portal)
            && self
                .interface
                .as_ref()
                .is_none_or(|it| *it == place.interface)
    }

    fn place(self) -> Option<Place> {
        Some(Place {
            target: self.target?,
            portal: self.portal?,
            interface: self
                .interface
                .unwrap_or_else(|| DEFAULT_INTERFACE.to_owned()),
        })
    }
}

/// Everything that was said.
#[derive(Default)]
struct Said {
    mode: String,
    operation: Option<String>,
    kind: Option<String>,
    which: Which,
    group: Option<u16>,
    name: Option<String>,
    value: Option<String>,
    action: Option<Action>,
    detailed: bool,
    version: bool,
}

/// What is to be done with sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    LogIn,
    LogOut,
    Rescan,
}

impl Command {
    /// Understands a command line without the program's name; the error is what `iscsiadm` says.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let said = Said::read(arguments)?;
        let incomplete = || "iscsiadm: Invalid info type or missing option".to_owned();
        if said.version {
            return Ok(Self::Version);
        }
        let which = said.which;
        match (said.mode.as_str(), said.operation.as_deref()) {
            ("discovery" | "discoverydb", _) => match (said.kind.as_deref(), which.portal) {
                (Some("sendtargets" | "st"), Some(portal)) => Ok(Self::Discover(portal)),
                _ => Err(incomplete()),
            },
            ("session", None | Some("show")) => Ok(match said.action {
                Some(Action::Rescan) => Self::Rescan(which),
                Some(Action::LogOut) => Self::LogOut(which),
                Some(Action::LogIn) | None => Self::Sessions {
                    which,
                    detailed: said.detailed,
                },
            }),
            ("node", Some("new")) => {
                let (place, group) = (which.place().ok_or_else(incomplete)?, said.group);
                Ok(Self::New { place, group })
            }
            ("node", Some("delete")) => Ok(Self::Delete(which)),
            ("node", Some("update")) => match (said.name, said.value) {
                (Some(name), Some(value)) => Ok(Self::Update { which, name, value }),
                _ => Err(incomplete()),
            },
            ("node", None | Some("show")) => Ok(match said.action {
                Some(Action::LogIn) => Self::LogIn(which),
                Some(Action::LogOut) => Self::LogOut(which),
                Some(Action::Rescan) => Self::Rescan(which),
                None => Self::Show(which),
            }),
            ("iface", Some("new")) => {
                let named = which.interface.ok_or_else(incomplete);
                named.map(Self::NewInterface)
            }
            ("iface", Some("delete")) => {
                let named = which.interface.ok_or_else(incomplete);
                named.map(Self::DeleteInterface)
            }
            (mode, operation) => Err(format!(
                "iscsiadm: mode `{mode}` with operation `{}` is not simulated",
                operation.unwrap_or("show")
            )),
        }
    }
}

impl Said {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut said = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (flag, joined) = match argument.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            let mut value = || {
                let next = joined.clone().or_else(|| rest.next().cloned());
                next.ok_or_else(|| format!("iscsiadm: option requires an argument -- '{flag}'"))
            };
            match flag {
                "-m" | "--mode" => said.mode = value()?,
                "-o" | "--op" => said.operation = Some(value()?),
                "-t" | "--type" => said.kind = Some(value()?),
                "-T" | "--targetname" => said.which.target = Some(value()?),
                "-p" | "--portal" => {
                    let (address, group) = portal(&value()?)?;
                    (said.which.portal, said.group) = (Some(address), group);
                }
                "-r" | "--sid" => said.which.session = Some(session(&value()?)?),
                "-n" | "--name" => said.name = Some(value()?),
                "-v" | "--value" => said.value = Some(value()?),
                "-l" | "--login" => said.action = Some(Action::LogIn),
                "-u" | "--logout" => said.action = Some(Action::LogOut),
                "-R" | "--rescan" => said.action = Some(Action::Rescan),
                "-V" | "--version" => said.version = true,
                "-I" | "--interface" => said.which.interface = Some(value()?),
                "-P" | "--print" => said.detailed = value()? != "0",
                "-d" | "--debug" => drop(value()?),
                "-S" | "--show" => {}
                other => return Err(format!("iscsiadm: unrecognized option '{other}'")),
            }
        }
        Ok(said)
    }
}

/// `10.0.0.1`, `10.0.0.1:3260`, `10.0.0.1:3260,1`, `[fd00::1]:3260`.
fn portal(text: &str) -> Result<(SocketAddr, Option<u16>), String> {
    let (text, group) = text.split_once(',').unwrap_or((text, ""));
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = bare
        .parse::<IpAddr>()
        .map(|ip| SocketAddr::new(ip, PORT))
        .or_else(|_| text.parse::<SocketAddr>());
    let address = address.map_err(|_| format!("iscsiadm: cannot resolve host name {text}"));
    Ok((address?, group.parse().ok()))
}

/// `3`, or the path of the session in sysfs, which ends in `session3`.
fn session(text: &str) -> Result<u32, String> {
    let digits = text.rsplit("session").next().unwrap_or_default();
    digits
        .parse()
        .map_err(|_| format!("iscsiadm: Could not get info for session {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        Command::parse(&arguments)
    }

    #[test]
    fn command_lines_are_those_of_drivers() {
        let portal: SocketAddr = "10.0.0.1:3260".parse().unwrap();
        let which = Which {
            target: Some("iqn.a".to_owned()),
            portal: Some(portal),
            ..Which::default()
        };
        let target = Some("iqn.a".to_owned());
        let place = which.clone().place().unwrap();
        for (line, command) in [
            ("-m discovery -t st -p 10.0.0.1", Command::Discover(portal)),
            (
                "-m node -T iqn.a -p 10.0.0.1:3260,1 -o new",
                Command::New {
                    place: place.clone(),
                    group: Some(1),
                },
            ),
            (
                "-m node -T iqn.a -p 10.0.0.1:3260 -o new",
                Command::New { place, group: None },
            ),
            (
                "--mode=node -T iqn.a -p 10.0.0.1:3260 --login",
                Command::LogIn(which.clone()),
            ),
            (
                "-m node -T iqn.a -p 10.0.0.1 -I nic -u",
                Command::LogOut(Which {
                    interface: Some("nic".to_owned()),
                    ..which.clone()
                }),
            ),
            (
                "-m node -T iqn.a --rescan",
                Command::Rescan(Which {
                    target,
                    ..Which::default()
                }),
            ),
            (
                "-m session -P 1",
                Command::Sessions {
                    which: Which::default(),
                    detailed: true,
                },
            ),
            (
                "-m iface -I nic -o new",
                Command::NewInterface("nic".to_owned()),
            ),
            (
                "-m session -r /sys/class/iscsi_session/session3 -R",
                Command::Rescan(Which {
                    session: Some(3),
                    ..Which::default()
                }),
            ),
            (
                "-m node -T iqn.a -p 10.0.0.1 -o update -n node.startup -v manual",
                Command::Update {
                    which,
                    name: "node.startup".to_owned(),
                    value: "manual".to_owned(),
                },
            ),
        ] {
            assert!(parse(line) == Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_iscsiadm_says_it() {
        for (line, says) in [
            ("-m node -o new -T iqn.a", "missing option"),
            ("-m iface -o new", "missing option"),
            ("-m node -o update -n x", "missing option"),
            ("-m fw", "not simulated"),
            ("-m node -p nowhere", "cannot resolve"),
            ("-m", "requires an argument"),
            ("-m node --frobnicate", "unrecognized option"),
        ] {
            let Err(error) = parse(line) else {
                panic!("{line} is understood");
            };
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
