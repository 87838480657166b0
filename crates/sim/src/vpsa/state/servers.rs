//! Servers, and volumes that are attached to them.

mod access;

use std::net::IpAddr;

use super::objects::attachment_key;
use super::{
    Attachment, Change, DataType, Decision, Kind, Moment, Object, Parameters, Refusal, Server,
    State, volumes,
};
use crate::moment::Millis;

pub use access::{Network, of_address, of_initiator};

/// Parameters of a server.
const KNOWN: [&str; 10] = [
    "display_name",
    "iscsi",
    "iqn",
    "ipsec_iscsi",
    "ipsec_nfs",
    "vpsachapuser",
    "vpsachapsecret",
    "hostchapuser",
    "hostchapsecret",
    "os",
];

/// The server with this identity.
pub fn get<'a>(state: &'a State, id: &str) -> Result<&'a Server, Refusal> {
    let server = state.servers.get(id);
    server.ok_or_else(|| Refusal::ServerMissing(id.to_owned()))
}

/// Makes a server.
pub fn create(state: &State, parameters: &Parameters, moment: &Moment) -> Decision<Server> {
    parameters.only(&KNOWN)?;
    let (id, counted) = state.next_id("srv");
    let vpsa = state.vpsa();
    let blank = Server {
        id,
        display_name: String::new(),
        ip: String::new(),
        iqn: String::new(),
        chap_user: vpsa.chap_user.clone(),
        chap_secret: vpsa.chap_secret.clone(),
        created_at: moment.now,
    };
    parameters.required("display_name")?;
    let server = described(state, blank, parameters)?;
    if server.ip.is_empty() && server.iqn.is_empty() {
        return Err(Refusal::invalid("iscsi", "it is required, or iqn"));
    }
    Ok((vec![counted, put(&server)], server))
}

/// Changes a server that has no volumes.
pub fn configure(state: &State, id: &str, parameters: &Parameters) -> Decision<Server> {
    parameters.only(&KNOWN)?;
    let server = get(state, id)?;
    check_unused(state, id)?;
    let server = described(state, server.clone(), parameters)?;
    Ok((vec![put(&server)], server))
}

/// Gives a server another name.
pub fn rename(state: &State, id: &str, parameters: &Parameters) -> Decision<Server> {
    parameters.only(&["new_name"])?;
    let name = parameters.name("new_name")?;
    let server = Server {
        display_name: name.to_owned(),
        ..get(state, id)?.clone()
    };
    check_unique(state, &server, parameters)?;
    Ok((vec![put(&server)], server))
}

/// Removes a server that has no volumes.
pub fn delete(state: &State, id: &str, parameters: &Parameters) -> Decision<()> {
    parameters.only(&[])?;
    let server = get(state, id)?;
    check_unused(state, id)?;
    let removed = Change::Remove {
        kind: Kind::Server,
        key: server.key(),
    };
    Ok((vec![removed], ()))
}

/// Attaches volumes to servers; those that are attached already stay as they are.
pub fn attach(
    state: &State,
    servers: &[String],
    parameters: &Parameters,
    moment: &Moment,
) -> Decision<Vec<Attachment>> {
    parameters.only(&["volume_name", "access_type", "readonly"])?;
    parameters.required("volume_name")?;
    let read_only = parameters.switch("readonly", false)?;
    let mut after = state.clone();
    let (mut changes, mut made) = (Vec::new(), Vec::new());
    for server in servers {
        let server = get(state, server)?;
        for volume in parameters.list("volume_name") {
            let volume = volumes::get_calm(state, &volume, moment.now)?;
            check_access(volume, server, parameters.get("access_type"))?;
            let key = attachment_key(&volume.id, &server.id);
            if let Some(known) = state.attachments.get(&key) {
                made.push(known.clone());
                continue;
            }
            let attachment = Attachment {
                volume: volume.id.clone(),
                server: server.id.clone(),
                lun: match volume.data_type {
                    DataType::Block => free_lun(&after, &server.id),
                    DataType::Nas => 0,
                },
                read_only,
                ready_at: moment.now + moment.delays.attachment,
            };
            let change = Change::Put(Object::Attachment(attachment.clone()));
            after.apply(change.clone());
            changes.push(change);
            made.push(attachment);
        }
    }
    Ok((changes, made))
}

/// Detaches a volume from servers.
pub fn detach(state: &State, id: &str, parameters: &Parameters, now: Millis) -> Decision<()> {
    parameters.only(&["servers", "server_name"])?;
    let volume = volumes::get(state, id, now)?;
    let mut servers = parameters.list("servers");
    servers.extend(parameters.list("server_name"));
    if servers.is_empty() {
        return Err(Refusal::invalid("servers", "it is required"));
    }
    let mut changes = Vec::new();
    for server in servers {
        get(state, &server)?;
        let key = attachment_key(&volume.id, &server);
        if !state.attachments.contains_key(&key) {
            return Err(Refusal::NotAttached {
                volume: id.to_owned(),
                server,
            });
        }
        changes.push(Change::Remove {
            kind: Kind::Attachment,
            key,
        });
    }
    Ok((changes, ()))
}

fn described(
    state: &State,
    mut server: Server,
    parameters: &Parameters,
) -> Result<Server, Refusal> {
    if parameters.get("display_name").is_some() {
        parameters
            .name("display_name")?
            .clone_into(&mut server.display_name);
    }
    if let Some(ip) = parameters.get("iscsi") {
        let network: Option<Network> = ip.parse().ok();
        network
            .ok_or_else(|| Refusal::invalid("iscsi", "it must be an IP address or a network"))?;
        ip.clone_into(&mut server.ip);
    }
    if let Some(iqn) = parameters.get("iqn") {
        let is_iqn = ["iqn.", "eui.", "naa."]
            .iter()
            .any(|kind| iqn.starts_with(kind));
        if !is_iqn || iqn.contains(char::is_whitespace) || iqn.len() > 223 {
            return Err(Refusal::invalid(
                "iqn",
                "it must be the name of an initiator",
            ));
        }
        iqn.clone_into(&mut server.iqn);
    }
    if let Some(secret) = parameters.get("vpsachapsecret") {
        if !(12..=16).contains(&secret.len()) {
            let reason = "it must have 12 to 16 characters";
            return Err(Refusal::invalid("vpsachapsecret", reason));
        }
        secret.clone_into(&mut server.chap_secret);
        let user = parameters.required("vpsachapuser")?;
        user.clone_into(&mut server.chap_user);
    }
    check_unique(state, &server, parameters)?;
    Ok(server)
}

/// Names and initiators are unique; addresses too, unless it is forced.
fn check_unique(state: &State, server: &Server, parameters: &Parameters) -> Result<(), Refusal> {
    let forced = parameters.switch("force", false)?;
    for other in state.servers.values().filter(|other| other.id != server.id) {
        let same = |ours: &str, theirs: &str| !ours.is_empty() && ours == theirs;
        let taken = if same(&server.display_name, &other.display_name) {
            &server.display_name
        } else if same(&server.iqn, &other.iqn) {
            &server.iqn
        } else if same(&server.ip, &other.ip) && !forced {
            &server.ip
        } else {
            continue;
        };
        return Err(Refusal::NameTaken {
            what: "Server with",
            name: taken.clone(),
        });
    }
    Ok(())
}

fn check_unused(state: &State, id: &str) -> Result<(), Refusal> {
    match state.attachments_to(id).next() {
        None => Ok(()),
        Some(_) => Err(Refusal::ServerInUse(id.to_owned())),
    }
}

/// A share needs an address to be given to, and a disk is not shared by NFS.
fn check_access(
    volume: &super::Volume,
    server: &Server,
    access_type: Option<&str>,
) -> Result<(), Refusal> {
    let reason = match (volume.data_type, access_type) {
        (DataType::Block, Some(_)) => "it must not be given for a block volume",
        (DataType::Nas, Some("NFS")) if server.ip.is_empty() => {
            "the server must have an IP address"
        }
        (DataType::Block, None) | (DataType::Nas, None | Some("NFS" | "SMB")) => return Ok(()),
        (DataType::Nas, Some(_)) => "it must be NFS or SMB",
    };
    Err(Refusal::invalid("access_type", reason))
}

/// The lowest number that the server has not given to a disk.
fn free_lun(state: &State, server: &str) -> u64 {
    let is_disk = |attachment: &&Attachment| {
        let volume = state.volumes.get(&attachment.volume);
        volume.is_none_or(|volume| volume.data_type == DataType::Block)
    };
    let taken: Vec<u64> = state
        .attachments_to(server)
        .filter(is_disk)
        .map(|attachment| attachment.lun)
        .collect();
    let most = taken.len() as u64;
    (0..=most).find(|lun| !taken.contains(lun)).unwrap_or(most)
}

fn put(server: &Server) -> Change {
    Change::Put(Object::Server(server.clone()))
}

/// An address as text, without the form that IPv4 takes in IPv6.
pub fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests;
