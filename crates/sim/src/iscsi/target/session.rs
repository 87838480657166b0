//! Requests of a session, one after the other.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::login::Agreed;
use super::unit::{self, Answer};
use super::{Guest, Storage};
use crate::iscsi::pdu::{NO_TASK, Opcode, Pdu, nonsense};
use crate::iscsi::scsi::{Cdb, Sense, Status};
use crate::iscsi::text::Texts;

/// How many commands an initiator may send ahead.
const WINDOW: u32 = 64;

/// Data of one command is not more than this.
const LONGEST_WRITE: usize = 64 << 20;

struct Session<'a, S> {
    stream: &'a mut S,
    storage: Arc<dyn Storage>,
    guest: Option<Guest>,
    longest_data: usize,
    longest_burst: usize,
    command: u32,
    status: u32,
    /// Commands whose data is still on its way.
    writes: HashMap<u32, Write>,
}

/// A command whose data is still on its way.
struct Write {
    request: Pdu,
    data: Vec<u8>,
    /// How much of it has come, how much was asked for.
    come: usize,
    asked: usize,
    bursts: u32,
}

/// Answers requests until somebody leaves.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    storage: Arc<dyn Storage>,
    agreed: Agreed,
) -> io::Result<()> {
    let mut session = Session {
        stream,
        storage,
        guest: agreed.guest,
        longest_data: agreed.longest_data,
        longest_burst: agreed.longest_burst,
        command: agreed.command,
        status: agreed.status,
        writes: HashMap::new(),
    };
    while let Some(request) = Pdu::read(session.stream).await? {
        let opcode = request.opcode()?;
        if !request.is_immediate() && opcode != Opcode::DataOut {
            // On one connection commands come in order: another number is a mistake, and not answered.
            if request.u32(24) != session.command {
                continue;
            }
            session.command = session.command.wrapping_add(1);
        }
        match opcode {
            Opcode::NopOut => session.echo(&request).await?,
            Opcode::Command => session.begin(request).await?,
            Opcode::DataOut => session.take_data(&request).await?,
            Opcode::Text => session.tell_targets(&request).await?,
            Opcode::TaskManagement => session.forget_task(&request).await?,
            Opcode::Logout => {
                let response = Pdu::new(Opcode::LogoutResponse);
                session.send(response, &request, true).await?;
                return Ok(());
            }
            _ => return Err(nonsense("a request that only a target makes")),
        }
        session.stream.flush().await?;
    }
    Ok(())
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Sends an answer; `counts` if it is one that the initiator acknowledges.
    async fn send(&mut self, mut response: Pdu, request: &Pdu, counts: bool) -> io::Result<()> {
        // Bit 0x80 of the second byte is set by those who know whether it is the last.
        if response.byte(1) == 0 {
            response.set_byte(1, 0x80);
        }
        response.set_u32(16, request.task());
        response.set_u32(24, self.status);
        response.set_u32(28, self.command);
        response.set_u32(32, self.command.wrapping_add(WINDOW));
        if counts {
            self.status = self.status.wrapping_add(1);
        }
        response.write(self.stream).await?;
        // Whoever waits for this must not wait for the next.
        self.stream.flush().await
    }

    async fn echo(&mut self, request: &Pdu) -> io::Result<()> {
        if request.task() == NO_TASK {
            return Ok(());
        }
        let mut response = Pdu::new(Opcode::NopIn);
        response.set_u32(20, NO_TASK);
        response.data.clone_from(&request.data);
        self.send(response, request, true).await
    }

    async fn tell_targets(&mut self, request: &Pdu) -> io::Result<()> {
        let asked = Texts::read(&request.data)?;
        let name = self.storage.target_name();
        let mut texts = Texts::default();
        let wanted = asked.get("SendTargets").unwrap_or_default();
        if wanted == "All" || wanted.is_empty() || wanted == name {
            texts.add("TargetName", name);
            for portal in self.storage.portals() {
                texts.add("TargetAddress", format!("{portal},1"));
            }
        }
        let mut response = Pdu::new(Opcode::TextResponse);
        response.set_bytes(8, &request.bytes::<8>(8));
        response.set_u32(20, NO_TASK);
        response.data = texts.write();
        self.send(response, request, true).await
    }

    async fn forget_task(&mut self, request: &Pdu) -> io::Result<()> {
        self.writes.remove(&request.u32(20));
        let response = Pdu::new(Opcode::TaskManagementResponse);
        self.send(response, request, true).await
    }

    /// A command that writes waits for its data; others are carried out at once.
    async fn begin(&mut self, request: Pdu) -> io::Result<()> {
        let expected = usize::try_from(request.u32(20)).unwrap_or(usize::MAX);
        let writes = request.byte(1) & 0x20 != 0;
        if !writes {
            return self.carry_out(&request, Vec::new()).await;
        }
        if expected > LONGEST_WRITE {
            return Err(nonsense("more data than a command can have"));
        }
        let come = request.data.len().min(expected);
        let mut data = request.data.clone();
        data.resize(expected, 0);
        let write = Write {
            request,
            data,
            come,
            asked: come,
            bursts: 0,
        };
        self.go_on(write).await
    }

    async fn take_data(&mut self, part: &Pdu) -> io::Result<()> {
        // Of a task that was given up.
        let Some(mut write) = self.writes.remove(&part.task()) else {
            return Ok(());
        };
        let offset = usize::try_from(part.u32(40)).unwrap_or(usize::MAX);
        let place = offset
            .checked_add(part.data.len())
            .and_then(|end| write.data.get_mut(offset..end));
        let place = place.ok_or_else(|| nonsense("data that nobody asked for"))?;
        place.copy_from_slice(&part.data);
        write.come += part.data.len();
        self.go_on(write).await
    }

    /// Asks for the next burst of data, or carries the command out if all of it is there.
    async fn go_on(&mut self, mut write: Write) -> io::Result<()> {
        if write.come < write.asked {
            self.writes.insert(write.request.task(), write);
            return Ok(());
        }
        let rest = write.data.len() - write.come;
        if rest == 0 {
            return self.carry_out(&write.request, write.data).await;
        }
        let burst = rest.min(self.longest_burst);
        let mut ready = Pdu::new(Opcode::ReadyToTransfer);
        ready.set_bytes(8, &write.request.bytes::<8>(8));
        ready.set_u32(20, write.request.task());
        ready.set_u32(36, write.bursts);
        ready.set_u32(40, length(write.come)?);
        ready.set_u32(44, length(burst)?);
        self.send(ready, &write.request, false).await?;
        write.asked += burst;
        write.bursts += 1;
        self.writes.insert(write.request.task(), write);
        Ok(())
    }

    async fn carry_out(&mut self, request: &Pdu, written: Vec<u8>) -> io::Result<()> {
        let cdb: Cdb = request.bytes(32);
        let (storage, guest) = (Arc::clone(&self.storage), self.guest.clone());
        let lun = request.lun();
        let answer = tokio::task::spawn_blocking(move || match guest {
            Some(guest) => unit::carry_out(storage.as_ref(), &guest.name, lun, &cdb, &written),
            // A session for discovery has no units.
            None => Answer::check(Sense::NO_UNIT),
        });
        let answer = answer.await.map_err(io::Error::other)?;
        let expected = usize::try_from(request.u32(20)).unwrap_or(usize::MAX);
        let sent = answer.data.len().min(expected);
        if answer.status == Status::Good && sent > 0 {
            return self
                .send_data(request, &answer.data[..sent], &answer, expected)
                .await;
        }
        let mut response = Pdu::new(Opcode::Response);
        response.set_byte(1, 0x80);
        if let Status::Check(sense) = answer.status {
            response.set_byte(3, 0x02);
            let sense = sense.bytes();
            response.data = [&[0, 18], sense.as_slice()].concat();
        }
        if answer.status == Status::Good {
            let whole = usize::try_from(answer.whole).unwrap_or(usize::MAX);
            note_residual(&mut response, expected, whole);
        }
        self.send(response, request, true).await
    }

    /// Sends data in parts; the last one says how the command ended.
    async fn send_data(
        &mut self,
        request: &Pdu,
        data: &[u8],
        answer: &Answer,
        expected: usize,
    ) -> io::Result<()> {
        let parts = data.len().div_ceil(self.longest_data);
        for (number, part) in data.chunks(self.longest_data).enumerate() {
            let is_last = number + 1 == parts;
            let mut response = Pdu::new(Opcode::DataIn);
            response.set_u32(20, NO_TASK);
            response.set_u32(36, length(number)?);
            response.set_u32(40, length(number * self.longest_data)?);
            response.data = part.to_vec();
            if is_last {
                response.set_byte(1, 0x81);
                note_residual(&mut response, expected, answer.data.len());
            } else {
                // Neither the last, nor the initiator's turn: nothing is set.
                response.set_byte(2, 0);
            }
            self.say_part(response, request, is_last).await?;
        }
        Ok(())
    }

    /// As [`Session::say`], but parts that are not the last carry no flag.
    async fn say_part(&mut self, response: Pdu, request: &Pdu, is_last: bool) -> io::Result<()> {
        if is_last {
            return self.send(response, request, true).await;
        }
        let mut part = response;
        part.set_u32(16, request.task());
        part.set_u32(28, self.command);
        part.set_u32(32, self.command.wrapping_add(WINDOW));
        part.write(self.stream).await
    }
}

/// Says that more or less came than was expected.
fn note_residual(response: &mut Pdu, expected: usize, found: usize) {
    let (flag, residual) = if found < expected {
        (0x02, expected - found)
    } else {
        (0x04, found - expected)
    };
    if residual > 0 {
        response.set_byte(1, response.byte(1) | flag);
        response.set_u32(44, u32::try_from(residual).unwrap_or(u32::MAX));
    }
}

fn length(number: usize) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| nonsense("a number that does not fit"))
}
