//! How another process tells a driver in memory what to do: one line each way over a UNIX socket.
//!
//! ```text
//! set VolumeTooSmall                                     a fault, by its name
//! upset CreateVolume before 3 refuse Unavailable no disk   so often, or `always`; RPC or `*`
//! upset CreateVolume after 1 disconnect                  also: delay MILLISECONDS, hang
//! room 0 zone=a                                          bytes, where (nowhere: everywhere)
//! mend                                                   no faults, no mishaps
//! calls CreateVolume                                     how often it was called
//! most-at-once CreateVolume                              so many calls were under way together
//! ```
//!
//! The answer is `ok`, with a number if one was asked for, or `error` and why. What was set holds for every call that
//! starts after the answer.

use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io};

use stowage_csi::metrics::code_label;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tonic::Code;

use super::driver::find_rpc;
use super::{Fault, MemoryDriver, Mishap, Moment, Room, Trouble};

/// The socket's name in the directory of the driver's state.
pub const SOCKET: &str = "control.sock";

/// A line that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Breaks a promise.
    Set(Fault),
    /// Lets something happen to calls of an RPC, or of all.
    Upset(Option<&'static str>, Mishap),
    /// Sets how much space there is, and where.
    Room(i64, Vec<(String, String)>),
    /// Ends all faults and mishaps.
    Mend,
    /// Asks how often an RPC was called.
    Calls(&'static str),
    /// Asks how many calls of an RPC were under way together.
    MostAtOnce(&'static str),
}

/// A line that means nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a command: see stowage_memory_driver::control")]
pub struct Misunderstood(String);

impl FromStr for Command {
    type Err = Misunderstood;

    fn from_str(line: &str) -> Result<Self, Misunderstood> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let command = match verb {
            "set" => Fault::named(rest).map(Self::Set),
            "upset" => upset(rest),
            "room" => room(rest),
            "mend" if rest.is_empty() => Some(Self::Mend),
            "calls" => find_rpc(rest).map(Self::Calls),
            "most-at-once" => find_rpc(rest).map(Self::MostAtOnce),
            _ => None,
        };
        command.ok_or_else(|| Misunderstood(line.to_owned()))
    }
}

fn upset(words: &str) -> Option<Command> {
    let mut words = words.splitn(4, ' ');
    let rpc = match words.next()? {
        "*" => None,
        rpc => Some(find_rpc(rpc)?),
    };
    let moment = match words.next()? {
        "before" => Moment::Before,
        "after" => Moment::After,
        _ => return None,
    };
    let times = words.next()?;
    let mishap = Mishap::new(moment, trouble(words.next()?)?);
    let mishap = match times {
        "always" => mishap,
        times => mishap.times(times.parse().ok()?),
    };
    Some(Command::Upset(rpc, mishap))
}

fn trouble(words: &str) -> Option<Trouble> {
    let (kind, rest) = words.split_once(' ').unwrap_or((words, ""));
    Some(match kind {
        "delay" => Trouble::Delay(Duration::from_millis(rest.parse().ok()?)),
        "refuse" => {
            let (code, message) = rest.split_once(' ').unwrap_or((rest, ""));
            let mut codes = (1..=16).map(Code::from_i32);
            let code = codes.find(|known| code_label(*known) == code)?;
            Trouble::Refuse(code, message.to_owned())
        }
        "hang" if rest.is_empty() => Trouble::Hang,
        "disconnect" if rest.is_empty() => Trouble::Disconnect,
        _ => return None,
    })
}

fn room(words: &str) -> Option<Command> {
    let mut words = words.split(' ');
    let available = words.next()?.parse().ok()?;
    let segment = |word: &str| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    };
    let segments = words.map(segment).collect::<Option<_>>()?;
    Some(Command::Room(available, segments))
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(fault) => write!(f, "set {fault:?}"),
            Self::Upset(rpc, mishap) => write!(f, "upset {} {mishap}", rpc.unwrap_or("*")),
            Self::Room(available, segments) => {
                write!(f, "room {available}")?;
                segments
                    .iter()
                    .try_for_each(|(key, value)| write!(f, " {key}={value}"))
            }
            Self::Mend => write!(f, "mend"),
            Self::Calls(rpc) => write!(f, "calls {rpc}"),
            Self::MostAtOnce(rpc) => write!(f, "most-at-once {rpc}"),
        }
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::Before => "before",
            Moment::After => "after",
        };
        write!(f, "{moment} ")?;
        match self.left {
            None => write!(f, "always ")?,
            Some(times) => write!(f, "{times} ")?,
        }
        match &self.trouble {
            Trouble::Delay(time) => write!(f, "delay {}", time.as_millis()),
            Trouble::Refuse(code, message) => write!(f, "refuse {} {message}", code_label(*code)),
            Trouble::Hang => write!(f, "hang"),
            Trouble::Disconnect => write!(f, "disconnect"),
        }
    }
}

impl MemoryDriver {
    /// Does what it is told; the answer is a number if one was asked for.
    pub fn obey(&self, command: Command) -> Option<u64> {
        match command {
            Command::Set(fault) => self.set(fault),
            Command::Upset(Some(rpc), mishap) => self.upset(rpc, mishap),
            Command::Upset(None, mishap) => self.upset_all(mishap),
            Command::Room(available, segments) => {
                let segments = segments.iter().map(|(key, value)| (&**key, &**value));
                let room = Room {
                    available,
                    ..Room::default()
                };
                self.set_room(segments, room);
            }
            Command::Mend => self.mend(),
            Command::Calls(rpc) => return Some(self.calls(rpc)),
            Command::MostAtOnce(rpc) => return Some(self.most_at_once(rpc)),
        }
        None
    }
}

/// Listens to commands for `driver`, for ever.
pub async fn listen(listener: UnixListener, driver: MemoryDriver) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let driver = driver.clone();
        // A caller that goes away in the middle of a line has nothing to be told.
        tokio::spawn(async move { converse(stream, &driver).await });
    }
}

async fn converse(mut stream: UnixStream, driver: &MemoryDriver) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match line.parse().map(|command| driver.obey(command)) {
            Ok(None) => "ok\n".to_owned(),
            Ok(Some(number)) => format!("ok {number}\n"),
            Err(error) => format!("error {error}\n"),
        };
        write.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read_as_it_is_written() {
        for line in [
            "set VolumeTooSmall",
            "upset CreateVolume before 3 refuse Unavailable the array is down",
            "upset ControllerPublishVolume after 1 disconnect",
            "upset * before always delay 250",
            "upset DeleteVolume before always hang",
            "room 0 zone=a rack=1",
            "room 4096",
            "mend",
            "calls CreateVolume",
            "most-at-once CreateVolume",
        ] {
            let command: Command = line.parse().unwrap();
            assert_eq!(command.to_string(), line);
        }
    }

    #[test]
    fn a_line_that_means_nothing_is_refused() {
        for line in [
            "",
            "set",
            "set NoSuchFault",
            "upset NoSuchCall before 1 hang",
            "upset CreateVolume now 1 hang",
            "upset CreateVolume before often hang",
            "upset CreateVolume before 1 refuse Tired",
            "upset CreateVolume before 1",
            "room",
            "room 1 zone",
            "calls",
            "mend it",
        ] {
            let refused = line.parse::<Command>().unwrap_err();
            assert!(refused.to_string().starts_with(&format!("`{line}`")));
        }
    }
}
