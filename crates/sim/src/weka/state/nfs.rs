//! NFS: who may reach which filesystem.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;

use super::filesystems::Moment;
use super::objects::{ClientGroup, ClientRule, NfsPermission};
use super::{Change, Filesystem, Kind, Millis, Object, ROOT, Refusal, State, User};
use crate::nfs::Wanted;

/// The body of `POST nfs/clientGroups`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClientGroup {
    name: String,
}

/// The body of `POST nfs/clientGroups/{uid}/rules`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRule {
    ip: Option<String>,
    dns: Option<String>,
}

/// The body of `POST nfs/permissions`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPermission {
    filesystem: String,
    group: String,
    #[serde(default = "root_path")]
    path: String,
    #[serde(default = "read_write")]
    permission_type: String,
    #[serde(default = "no_squash")]
    squash_mode: String,
    anon_uid: Option<Number>,
    anon_gid: Option<Number>,
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default)]
    priority: u32,
}

/// Clients write identities as numbers or as texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u32),
    Text(String),
}

/// What clients are told who may not mount something, or for whom it is not there.
pub const DENIED: &str = "access denied by server";

/// A filesystem that a client may mount.
#[derive(Debug)]
pub struct Access<'a> {
    /// Which.
    pub filesystem: &'a Filesystem,
    /// The client group that has the permission.
    pub group: &'a String,
    /// Whether it can only be read.
    pub read_only: bool,
}

/// Whether somebody at an address may mount what it wants: all of a filesystem of Root, whose permission for this version
/// goes to a client group that the address is in, at an address of an interface group.
pub fn access<'a>(
    state: &'a State,
    wanted: &Wanted,
    address: IpAddr,
    now: Millis,
) -> Result<Access<'a>, String> {
    let mut interfaces = state.interface_groups.values();
    let is_served = interfaces.any(|group| {
        let mut ips = group.ips.iter();
        group.kind == "NFS" && ips.any(|ip| ip.parse() == Ok(wanted.server))
    });
    if !is_served {
        return Err("Connection refused".to_owned());
    }
    let name = wanted.export.trim_matches('/');
    let mut filesystems = state.filesystems.values();
    let filesystem = filesystems
        .find(|it| it.name == name && it.org_id == ROOT && it.is_ready(now))
        .ok_or("No such file or directory")?;
    let mut permissions = state.nfs_permissions.values();
    let permission = permissions.find(|permission| {
        let group = state.client_groups.values();
        let mut group = group.filter(|group| group.name == permission.group);
        permission.filesystem == name
            && permission.path == "/"
            && permission
                .supported_versions
                .iter()
                .any(|it| it == wanted.major())
            && group.any(|group| group.rules.iter().any(|rule| rule.covers(address)))
    });
    let permission = permission.ok_or(DENIED)?;
    Ok(Access {
        filesystem,
        group: &permission.group,
        read_only: permission.permission_type == "RO",
    })
}

impl ClientRule {
    /// Whether an address is in it. Names are not looked up.
    fn covers(&self, address: IpAddr) -> bool {
        let parts = self.rule.split_once('/');
        let (IpAddr::V4(address), Some((network, mask))) = (address, parts) else {
            return false;
        };
        let mask = match (mask.parse::<Ipv4Addr>(), mask.parse::<u32>()) {
            (Ok(mask), _) => u32::from(mask),
            (_, Ok(bits @ 0..=32)) => u32::MAX.checked_shl(32 - bits).unwrap_or(0),
            _ => return false,
        };
        let network = network.parse::<Ipv4Addr>().map(u32::from);
        network.is_ok_and(|network| u32::from(address) & mask == network & mask)
    }
}

fn root_path() -> String {
    "/".to_owned()
}

fn read_write() -> String {
    "RW".to_owned()
}

fn no_squash() -> String {
    "none".to_owned()
}

/// NFS belongs to the Root organization.
pub fn check_organization(user: &User) -> Result<(), Refusal> {
    match user.org_id {
        ROOT => Ok(()),
        _ => Err(Refusal::Invalid(
            "NFS is for filesystems of the Root organization only".to_owned(),
        )),
    }
}

/// Makes a client group.
pub fn create_group(
    state: &State,
    request: NewClientGroup,
    moment: &Moment,
) -> Result<(Vec<Change>, ClientGroup), Refusal> {
    if request.name.is_empty() {
        return Err(Refusal::Invalid("name: must not be empty".to_owned()));
    }
    if state.client_groups.values().any(|g| g.name == request.name) {
        return Err(Refusal::NameTaken {
            what: "Client group",
            name: request.name,
        });
    }
    let group = ClientGroup {
        uid: moment.uid.clone(),
        name: request.name,
        rules: Vec::new(),
    };
    Ok((vec![Change::Put(Object::ClientGroup(group.clone()))], group))
}

/// The client group with this identity.
pub fn group<'a>(state: &'a State, uid: &str) -> Result<&'a ClientGroup, Refusal> {
    state
        .client_groups
        .get(uid)
        .ok_or_else(|| Refusal::ClientGroupMissing(uid.to_owned()))
}

/// Puts a client into a group.
pub fn create_rule(
    state: &State,
    uid: &str,
    request: NewRule,
    moment: &Moment,
) -> Result<(Vec<Change>, ClientRule), Refusal> {
    let mut group = group(state, uid)?.clone();
    let (kind, rule) = match (request.ip, request.dns) {
        (Some(ip), None) => ("IP", check_network(ip)?),
        (None, Some(dns)) if !dns.is_empty() => ("DNS", dns),
        _ => {
            return Err(Refusal::Invalid(
                "ip, dns: give exactly one of them".to_owned(),
            ));
        }
    };
    if group.rules.iter().any(|r| r.rule == rule) {
        return Err(Refusal::NameTaken {
            what: "Rule",
            name: rule,
        });
    }
    let rule = ClientRule {
        uid: moment.uid.clone(),
        id: format!("RuleId: {}", group.rules.len()),
        kind: kind.to_owned(),
        rule,
    };
    group.rules.push(rule.clone());
    Ok((vec![Change::Put(Object::ClientGroup(group))], rule))
}

/// Grants a client group access to a filesystem.
pub fn create_permission(
    state: &State,
    user: &User,
    request: NewPermission,
    moment: &Moment,
) -> Result<(Vec<Change>, NfsPermission), Refusal> {
    let known = state
        .filesystems
        .values()
        .any(|f| f.name == request.filesystem && f.org_id == user.org_id);
    if !known {
        return Err(Refusal::FilesystemMissing(request.filesystem));
    }
    if !state
        .client_groups
        .values()
        .any(|g| g.name == request.group)
    {
        return Err(Refusal::ClientGroupMissing(request.group));
    }
    check_words(&request)?;
    let same = |p: &&NfsPermission| {
        p.filesystem == request.filesystem && p.group == request.group && p.path == request.path
    };
    if state.nfs_permissions.values().find(same).is_some() {
        return Err(Refusal::NameTaken {
            what: "Permission",
            name: format!(
                "{}{} for {}",
                request.filesystem, request.path, request.group
            ),
        });
    }
    let permission = NfsPermission {
        uid: moment.uid.clone(),
        filesystem: request.filesystem,
        group: request.group,
        path: request.path,
        permission_type: request.permission_type,
        squash_mode: request.squash_mode,
        anon_uid: text(request.anon_uid),
        anon_gid: text(request.anon_gid),
        supported_versions: request.supported_versions,
        priority: request.priority,
    };
    let change = Change::Put(Object::NfsPermission(permission.clone()));
    Ok((vec![change], permission))
}

/// Takes a permission back.
pub fn delete_permission(state: &State, uid: &str) -> Result<Vec<Change>, Refusal> {
    if !state.nfs_permissions.contains_key(uid) {
        return Err(Refusal::PermissionMissing(uid.to_owned()));
    }
    Ok(vec![Change::Remove {
        kind: Kind::NfsPermission,
        key: uid.to_owned(),
    }])
}

fn check_words(request: &NewPermission) -> Result<(), Refusal> {
    let check = |field: &str, value: &str, words: &[&str]| {
        if words.contains(&value) {
            Ok(())
        } else {
            Err(Refusal::Invalid(format!(
                "{field}: `{value}` is not one of {}",
                words.join(", ")
            )))
        }
    };
    check("permission_type", &request.permission_type, &["RW", "RO"])?;
    check(
        "squash_mode",
        &request.squash_mode,
        &["none", "root", "all"],
    )?;
    for version in &request.supported_versions {
        check("supported_versions", version, &["V3", "V4"])?;
    }
    if !request.path.starts_with('/') {
        return Err(Refusal::Invalid("path: must begin with `/`".to_owned()));
    }
    Ok(())
}

/// `10.0.0.1/255.255.255.255`.
fn check_network(ip: String) -> Result<String, Refusal> {
    let fits = ip.split_once('/').is_some_and(|(address, mask)| {
        address.parse::<IpAddr>().is_ok()
            && (mask.parse::<IpAddr>().is_ok() || mask.parse::<u8>().is_ok_and(|m| m <= 128))
    });
    if fits {
        Ok(ip)
    } else {
        Err(Refusal::Invalid(format!(
            "ip: `{ip}` is not an address with a mask, such as `10.0.0.1/255.255.255.255`"
        )))
    }
}

fn text(number: Option<Number>) -> String {
    match number {
        None => "65534".to_owned(),
        Some(Number::Number(number)) => number.to_string(),
        Some(Number::Text(text)) => text,
    }
}

#[cfg(test)]
mod tests;
