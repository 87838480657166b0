//! One connection: a command, its data, its answer.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Failure;
use crate::iscsi::pdu::{NO_TASK, Opcode, Pdu, nonsense};
use crate::iscsi::scsi::{Cdb, Sense};

/// How long a target may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection that is logged in.
#[derive(Debug)]
pub struct Connection {
    pub(super) stream: BufStream<TcpStream>,
    pub(super) isid: [u8; 6],
    pub(super) command: u32,
    pub(super) status: u32,
    pub(super) task: u32,
    /// The most data of a PDU to the target.
    pub(super) longest_data: usize,
    /// How much data may go with a command.
    pub(super) immediate: usize,
}

impl Connection {
    pub(super) async fn send(&mut self, mut pdu: Pdu) -> io::Result<u32> {
        self.task = self.task.wrapping_add(1) & 0x7fff_ffff;
        pdu.set_u32(16, self.task);
        pdu.set_u32(24, self.command);
        pdu.set_u32(28, self.status);
        if !pdu.is_immediate() {
            self.command = self.command.wrapping_add(1);
        }
        pdu.write(&mut self.stream).await?;
        self.stream.flush().await?;
        Ok(self.task)
    }

    pub(super) async fn receive(&mut self) -> io::Result<Pdu> {
        loop {
            let read = timeout(PATIENCE, Pdu::read(&mut self.stream)).await;
            let read = read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let pdu = read.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            let opcode = pdu.opcode()?;
            let counts = match opcode {
                Opcode::DataIn => pdu.byte(1) & 1 != 0,
                Opcode::ReadyToTransfer => false,
                // The target asks whether we are there.
                Opcode::NopIn => pdu.task() != NO_TASK,
                _ => true,
            };
            if counts {
                self.status = pdu.u32(24).wrapping_add(1);
            }
            match opcode {
                Opcode::NopIn if pdu.task() == NO_TASK => {}
                Opcode::Reject => return Err(nonsense("the target rejects a request")),
                Opcode::Async => return Err(nonsense("the target asks to leave")),
                _ => return Ok(pdu),
            }
        }
    }

    pub(super) async fn ping(&mut self) -> io::Result<()> {
        let mut ping = Pdu::new(Opcode::NopOut).immediate();
        ping.set_byte(1, 0x80);
        ping.set_u32(20, NO_TASK);
        self.send(ping).await?;
        match self.receive().await?.opcode()? {
            Opcode::NopIn => Ok(()),
            _ => Err(nonsense("something else than an answer to a ping")),
        }
    }

    pub(super) async fn log_out(&mut self) -> io::Result<()> {
        let mut logout = Pdu::new(Opcode::Logout).immediate();
        logout.set_byte(1, 0x80);
        self.send(logout).await?;
        let answer = self.receive().await?;
        match (answer.opcode()?, answer.byte(2)) {
            (Opcode::LogoutResponse, 0) => Ok(()),
            _ => Err(nonsense("the target does not let us go")),
        }
    }

    /// Sends a command and its data, and returns what it read.
    pub(super) async fn command(
        &mut self,
        lun: u64,
        cdb: &Cdb,
        expected: u32,
        written: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let mut command = Pdu::new(Opcode::Command);
        let (flags, length) = match (expected, written.len()) {
            (0, 0) => (0x80, 0),
            (0, length) => (0xa0, length_of(length)?),
            (expected, _) => (0xc0, expected),
        };
        command.set_byte(1, flags);
        command.set_lun(lun);
        command.set_u32(20, length);
        command.set_bytes(32, cdb);
        command.data = written[..written.len().min(self.immediate)].to_vec();
        let task = self.send(command).await?;
        let mut data = Vec::new();
        loop {
            let answer = self.receive().await?;
            if answer.task() != task {
                return Err(nonsense("an answer to another command").into());
            }
            match answer.opcode()? {
                Opcode::ReadyToTransfer => self.send_data(&answer, lun, written).await?,
                Opcode::DataIn => {
                    data.extend_from_slice(&answer.data);
                    if answer.byte(1) & 1 != 0 {
                        return Ok(data);
                    }
                }
                Opcode::Response => return ended(&answer, data),
                _ => return Err(nonsense("something else than an answer").into()),
            }
        }
    }

    /// Sends the data that the target is ready for.
    async fn send_data(&mut self, ready: &Pdu, lun: u64, written: &[u8]) -> io::Result<()> {
        let number = |at| usize::try_from(ready.u32(at)).unwrap_or(usize::MAX);
        let (offset, length) = (number(40), number(44));
        let burst = offset
            .checked_add(length)
            .and_then(|end| written.get(offset..end));
        let burst = burst.ok_or_else(|| nonsense("the target wants data that there is not"))?;
        let parts = burst.len().div_ceil(self.longest_data);
        for (index, part) in burst.chunks(self.longest_data).enumerate() {
            let mut data = Pdu::new(Opcode::DataOut);
            data.set_byte(1, if index + 1 == parts { 0x80 } else { 0 });
            data.set_lun(lun);
            data.set_u32(16, ready.task());
            data.set_u32(20, ready.u32(20));
            data.set_u32(28, self.status);
            data.set_u32(36, length_of(index)?);
            data.set_u32(40, length_of(offset + index * self.longest_data)?);
            data.data = part.to_vec();
            data.write(&mut self.stream).await?;
        }
        self.stream.flush().await
    }
}

fn ended(response: &Pdu, data: Vec<u8>) -> Result<Vec<u8>, Failure> {
    match (response.byte(2), response.byte(3)) {
        (0, 0) => Ok(data),
        (0, 2) => {
            let sense = response.data.get(2..).and_then(Sense::read);
            Err(sense.map_or_else(|| nonsense("no reason").into(), Failure::Check))
        }
        _ => Err(nonsense("a command ended in an unknown way").into()),
    }
}

fn length_of(number: usize) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| nonsense("a number that does not fit"))
}
