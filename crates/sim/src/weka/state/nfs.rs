//! NFS: who may reach which filesystem. Only what clients set up; nothing serves NFS.

use serde::Deserialize;

use super::filesystems::Moment;
use super::objects::{ClientGroup, ClientRule, NfsPermission};
use super::{Change, Kind, Object, ROOT, Refusal, State, User};

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
        address.parse::<std::net::IpAddr>().is_ok()
            && (mask.parse::<std::net::IpAddr>().is_ok()
                || mask.parse::<u8>().is_ok_and(|m| m <= 128))
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
