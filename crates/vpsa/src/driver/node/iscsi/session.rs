//! Sessions with targets, and the interfaces of open-iscsi through which they are made.

use std::collections::BTreeSet;

/// Begins the names of our interfaces, as with Zadara's driver: sessions through others are somebody else's.
const OURS: &str = "zadara_";

/// Begins the names that initiators have in practice; what is not known is `<empty>`.
const IS_NAME: &str = "iqn.";

/// The port of iSCSI.
const PORT: u16 = 3260;

/// A session with a target, or the settings of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session {
    /// The target.
    pub target: String,
    /// Where it is reached, with the port.
    pub portal: String,
    /// The interface of open-iscsi.
    pub interface: String,
}

impl Session {
    /// A session of ours.
    pub fn new(target: &str, portal: &str) -> Self {
        let portal = with_port(portal);
        let (address, _) = portal.rsplit_once(':').unwrap_or((&portal, ""));
        let interface = format!("{OURS}{}", address.trim_matches(['[', ']']));
        Self {
            target: target.to_owned(),
            interface,
            portal,
        }
    }

    /// Whether this driver made it, or Zadara's.
    pub fn is_ours(&self) -> bool {
        self.interface.starts_with(OURS)
    }
}

/// Reads what `iscsiadm -m session -P 1` prints.
pub fn parse(text: &str) -> Vec<Session> {
    let (mut target, mut portal) = (String::new(), String::new());
    let mut sessions = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Target: ") {
            rest.split(' ')
                .next()
                .unwrap_or(rest)
                .clone_into(&mut target);
        } else if let Some(rest) = line.strip_prefix("Persistent Portal: ") {
            let (address, _) = rest.rsplit_once(',').unwrap_or((rest, ""));
            address.clone_into(&mut portal);
        } else if let Some(interface) = line.strip_prefix("Iface Name: ") {
            sessions.push(Session {
                target: target.clone(),
                portal: portal.clone(),
                interface: interface.to_owned(),
            });
        }
    }
    sessions
}

/// The names under which sessions with a target were begun, as `iscsiadm -m session -P 1` prints them. Of a session that an
/// older process began it may know none.
pub fn initiators<'a>(text: &'a str, target: &str) -> BTreeSet<&'a str> {
    let mut is_it = false;
    let mut initiators = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Target: ") {
            is_it = rest.split(' ').next() == Some(target);
        } else if let Some(name) = line.strip_prefix("Iface Initiatorname: ")
            && is_it
            && name.starts_with(IS_NAME)
        {
            initiators.insert(name);
        }
    }
    initiators
}

/// `10.0.0.1:3260`, `[fd00::1]:3260`.
fn with_port(address: &str) -> String {
    match address.parse::<std::net::IpAddr>() {
        Ok(ip) => std::net::SocketAddr::new(ip, PORT).to_string(),
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_one_address_have_one_interface_whatever_the_address() {
        for (address, portal, interface) in [
            ("10.0.0.1", "10.0.0.1:3260", "zadara_10.0.0.1"),
            ("fd00::1", "[fd00::1]:3260", "zadara_fd00::1"),
            ("10.0.0.1:860", "10.0.0.1:860", "zadara_10.0.0.1"),
        ] {
            let session = Session::new("iqn.a", address);
            assert_eq!(
                (session.portal.as_str(), session.interface.as_str()),
                (portal, interface)
            );
            assert!(session.is_ours());
        }
    }

    #[test]
    fn a_target_may_have_several_sessions_some_of_which_are_ours() {
        let text = "\
Target: iqn.a (non-flash)
\tCurrent Portal: 10.0.0.9:3260,1
\tPersistent Portal: 10.0.0.1:3260,1
\t\t**********
\t\tInterface:
\t\t**********
\t\tIface Name: zadara_10.0.0.1
\t\tIface Transport: tcp
\t\tIface Initiatorname: iqn.node
\t\tSID: 1
\tCurrent Portal: [fd00::1]:3260,1
\tPersistent Portal: [fd00::1]:3260,1
\t\tIface Name: default
Target: iqn.b (non-flash)
\tPersistent Portal: 10.0.0.2:3260,1
\t\tIface Name: zadara_10.0.0.2
\t\tIface Initiatorname: <empty>
";
        let sessions = parse(text);
        let found: Vec<(&str, &str, bool)> = sessions
            .iter()
            .map(|it| (it.target.as_str(), it.portal.as_str(), it.is_ours()))
            .collect();
        assert_eq!(
            found,
            [
                ("iqn.a", "10.0.0.1:3260", true),
                ("iqn.a", "[fd00::1]:3260", false),
                ("iqn.b", "10.0.0.2:3260", true)
            ]
        );
        assert_eq!(initiators(text, "iqn.a"), ["iqn.node"].into());
        assert_eq!(initiators(text, "iqn.b"), [].into());
        assert_eq!(parse("iscsiadm: No active sessions.\n"), []);
    }
}
