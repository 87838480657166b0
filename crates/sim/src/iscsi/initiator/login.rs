//! Logging in, and asking which targets there are.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::BufStream;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::Login;
use super::connection::Connection;
use crate::iscsi::chap::{ALGORITHM, Challenge, hex, parse_hex};
use crate::iscsi::pdu::{NO_TASK, Opcode, Pdu, nonsense};
use crate::iscsi::text::Texts;
use crate::moment::fresh_secret;

/// How long a target may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why somebody is not logged in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// Nobody answers, or nonsense.
    #[error("the target does not answer")]
    Unreachable(#[from] io::Error),
    /// The target says no: class and detail.
    #[error("the target refuses the login (status {0:02x}{1:02x})")]
    Refused(u8, u8),
}

/// A portal that a target told of: its address and port, and the group it is in.
pub type Portal = (SocketAddr, u16);

/// Logs in.
pub(super) async fn log_in(login: &Login) -> Result<Connection, LoginError> {
    let mut connection = connect(login.portal, login.source).await?;
    let method = if login.chap.is_some() { "CHAP" } else { "None" };
    let first: Texts = [
        ("InitiatorName", login.initiator.as_str()),
        ("SessionType", "Normal"),
        ("TargetName", login.target.as_str()),
        ("AuthMethod", method),
    ]
    .into();
    let answer = exchange(&mut connection, 0, 1, login.chap.is_none(), &first).await?;
    if let Some((user, secret)) = &login.chap {
        if answer.get("AuthMethod") != Some("CHAP") {
            return Err(nonsense("the target does not want to know who we are").into());
        }
        prove(&mut connection, user, secret).await?;
    }
    negotiate(&mut connection).await?;
    Ok(connection)
}

/// Asks which targets there are: for each its name and its portals.
pub async fn discover(
    portal: SocketAddr,
    source: Option<IpAddr>,
    initiator: &str,
) -> Result<Vec<(String, Vec<Portal>)>, LoginError> {
    let mut connection = connect(portal, source).await?;
    let first: Texts = [
        ("InitiatorName", initiator),
        ("SessionType", "Discovery"),
        ("AuthMethod", "None"),
    ]
    .into();
    exchange(&mut connection, 0, 1, true, &first).await?;
    negotiate(&mut connection).await?;
    let mut ask = Pdu::new(Opcode::Text);
    ask.set_byte(1, 0x80);
    ask.set_u32(20, NO_TASK);
    ask.data = Texts::from([("SendTargets", "All")]).write();
    connection.send(ask).await?;
    let answer = Texts::read(&connection.receive().await?.data)?;
    let _ = connection.log_out().await;
    let mut targets: Vec<(String, Vec<Portal>)> = Vec::new();
    let mut addresses = answer.all("TargetAddress");
    for target in answer.all("TargetName") {
        // Simulated arrays have one target each, so all addresses are its own.
        let portals = addresses.by_ref().filter_map(read_portal).collect();
        targets.push((target.to_owned(), portals));
    }
    Ok(targets)
}

/// `address:port,group`.
fn read_portal(text: &str) -> Option<Portal> {
    let (address, group) = text.split_once(',').unwrap_or((text, "1"));
    Some((address.parse().ok()?, group.parse().ok()?))
}

async fn connect(portal: SocketAddr, source: Option<IpAddr>) -> io::Result<Connection> {
    let socket = match portal {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = source.filter(|source| source.is_ipv4() == portal.is_ipv4()) {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let connected = timeout(CONNECT_TIMEOUT, socket.connect(portal)).await;
    let stream: TcpStream = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    let mut isid = [0x80, 0, 0, 0, 0, 0];
    let random = parse_hex(&fresh_secret(5)).unwrap_or_default();
    isid[1..].copy_from_slice(&random);
    Ok(Connection {
        stream: BufStream::new(stream),
        isid,
        command: 1,
        status: 0,
        task: 0,
        longest_data: 8192,
        immediate: 0,
    })
}

/// One request of a login, and what the target says to it.
async fn exchange(
    connection: &mut Connection,
    stage: u8,
    next: u8,
    moves: bool,
    texts: &Texts,
) -> Result<Texts, LoginError> {
    let mut request = Pdu::new(Opcode::Login).immediate();
    request.set_byte(1, stage << 2 | if moves { 0x80 | next } else { 0 });
    request.set_bytes(8, &connection.isid);
    request.data = texts.write();
    connection.send(request).await?;
    let response = connection.receive().await?;
    if response.opcode()? != Opcode::LoginResponse {
        return Err(nonsense("something else than an answer to a login").into());
    }
    match (response.byte(36), response.byte(37)) {
        (0, 0) => Ok(Texts::read(&response.data)?),
        (class, detail) => Err(LoginError::Refused(class, detail)),
    }
}

/// Shows that we know the secret.
async fn prove(connection: &mut Connection, user: &str, secret: &str) -> Result<(), LoginError> {
    let asked = exchange(connection, 0, 1, false, &[("CHAP_A", ALGORITHM)].into()).await?;
    let challenge = asked.get("CHAP_C").and_then(parse_hex);
    let id = asked.number("CHAP_I").and_then(|id| u8::try_from(id).ok());
    let (Some(bytes), Some(id)) = (challenge, id) else {
        return Err(nonsense("the target asks nothing").into());
    };
    let answer = Challenge { id, bytes }.answer(secret);
    let answer = hex(&answer);
    let proof: Texts = [("CHAP_N", user), ("CHAP_R", answer.as_str())].into();
    exchange(connection, 0, 1, true, &proof).await.map(drop)
}

async fn negotiate(connection: &mut Connection) -> Result<(), LoginError> {
    let wanted: Texts = [
        ("HeaderDigest", "None"),
        ("DataDigest", "None"),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "Yes"),
        ("MaxRecvDataSegmentLength", "262144"),
        ("MaxBurstLength", "1048576"),
        ("FirstBurstLength", "65536"),
        ("MaxOutstandingR2T", "1"),
        ("MaxConnections", "1"),
        ("ErrorRecoveryLevel", "0"),
        ("DefaultTime2Wait", "2"),
        ("DefaultTime2Retain", "0"),
    ]
    .into();
    let agreed = exchange(connection, 1, 3, true, &wanted).await?;
    let number = |key: &str, default: u32| {
        let number = agreed.number(key).unwrap_or(default);
        usize::try_from(number).unwrap_or(8192)
    };
    connection.longest_data = number("MaxRecvDataSegmentLength", 8192).max(512);
    if agreed.get("ImmediateData") == Some("Yes") {
        let first = number("FirstBurstLength", 65536);
        connection.immediate = first.min(connection.longest_data);
    }
    Ok(())
}
