//! What goes over the wire: 48 bytes that say what it is, and data, padded to words of four.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The length of what comes before the data.
const HEADER: usize = 48;

/// No data is longer than this, whatever was agreed upon.
const LONGEST: usize = 16 << 20;

/// No task: of requests that want no answer.
pub const NO_TASK: u32 = 0xffff_ffff;

/// What a PDU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of RFC 7143")]
pub enum Opcode {
    NopOut = 0x00,
    Command = 0x01,
    TaskManagement = 0x02,
    Login = 0x03,
    Text = 0x04,
    DataOut = 0x05,
    Logout = 0x06,
    NopIn = 0x20,
    Response = 0x21,
    TaskManagementResponse = 0x22,
    LoginResponse = 0x23,
    TextResponse = 0x24,
    DataIn = 0x25,
    LogoutResponse = 0x26,
    ReadyToTransfer = 0x31,
    Async = 0x32,
    Reject = 0x3f,
}

const OPCODES: [Opcode; 17] = [
    Opcode::NopOut,
    Opcode::Command,
    Opcode::TaskManagement,
    Opcode::Login,
    Opcode::Text,
    Opcode::DataOut,
    Opcode::Logout,
    Opcode::NopIn,
    Opcode::Response,
    Opcode::TaskManagementResponse,
    Opcode::LoginResponse,
    Opcode::TextResponse,
    Opcode::DataIn,
    Opcode::LogoutResponse,
    Opcode::ReadyToTransfer,
    Opcode::Async,
    Opcode::Reject,
];

/// One PDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    header: [u8; HEADER],
    /// Its data.
    pub data: Vec<u8>,
}

impl Pdu {
    /// An empty one.
    pub fn new(opcode: Opcode) -> Self {
        let mut header = [0; HEADER];
        header[0] = opcode as u8;
        Self {
            header,
            data: Vec::new(),
        }
    }

    /// What it is.
    pub fn opcode(&self) -> io::Result<Opcode> {
        let number = self.header[0] & 0x3f;
        let known = OPCODES.into_iter().find(|opcode| *opcode as u8 == number);
        known.ok_or_else(|| nonsense("an opcode that does not exist"))
    }

    /// Whether it goes before what waits.
    pub fn is_immediate(&self) -> bool {
        self.header[0] & 0x40 != 0
    }

    /// The same, to go before what waits.
    pub fn immediate(mut self) -> Self {
        self.header[0] |= 0x40;
        self
    }

    /// A byte of the header.
    pub fn byte(&self, at: usize) -> u8 {
        self.header[at]
    }

    /// Sets a byte of the header.
    pub fn set_byte(&mut self, at: usize, value: u8) {
        self.header[at] = value;
    }

    /// Two bytes of the header.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// Four bytes of the header.
    pub fn u32(&self, at: usize) -> u32 {
        let bytes = &self.header[at..at + 4];
        bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    /// Sets four bytes of the header.
    pub fn set_u32(&mut self, at: usize, value: u32) {
        self.set_bytes(at, &value.to_be_bytes());
    }

    /// Bytes of the header.
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.header[at..at + N]);
        bytes
    }

    /// Sets bytes of the header.
    pub fn set_bytes(&mut self, at: usize, bytes: &[u8]) {
        self.header[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The task it belongs to.
    pub fn task(&self) -> u32 {
        self.u32(16)
    }

    /// The number of the unit it is for; none for numbers that no array gives.
    pub fn lun(&self) -> Option<u64> {
        let number: [u8; 8] = self.bytes(8);
        match number {
            [high @ (0..=0x7f), low, 0, 0, 0, 0, 0, 0] => {
                Some(u64::from(high & 0x3f) << 8 | u64::from(low))
            }
            _ => None,
        }
    }

    /// Says for which unit it is.
    pub fn set_lun(&mut self, lun: u64) {
        self.set_bytes(8, &encode_lun(lun));
    }

    /// Reads one. An end before it begins is none.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut pdu = Self::new(Opcode::NopOut);
        if stream.read(&mut pdu.header[..1]).await? == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut pdu.header[1..]).await?;
        let length = usize::try_from(pdu.u32(4) & 0x00ff_ffff).unwrap_or(LONGEST + 1);
        if length > LONGEST {
            return Err(nonsense("more data than was agreed upon"));
        }
        let mut further = vec![0; usize::from(pdu.header[4]) * 4];
        stream.read_exact(&mut further).await?;
        pdu.data = vec![0; length.next_multiple_of(4)];
        stream.read_exact(&mut pdu.data).await?;
        pdu.data.truncate(length);
        Ok(Some(pdu))
    }

    /// Writes it.
    pub async fn write(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let length = u32::try_from(self.data.len()).map_err(|_| nonsense("too much data"))?;
        let mut bytes = self.header.to_vec();
        bytes[4] = 0;
        bytes[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
        bytes.extend_from_slice(&self.data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        stream.write_all(&bytes).await
    }
}

/// A unit's number as it is on the wire.
pub fn encode_lun(lun: u64) -> [u8; 8] {
    let low = u16::try_from(lun & 0x3fff).unwrap_or_default();
    // Up to 255 as a plain number, beyond that in the flat form.
    let number = if low < 256 { low } else { low | 0x4000 };
    let [high, low] = number.to_be_bytes();
    [high, low, 0, 0, 0, 0, 0, 0]
}

/// The other end talks nonsense.
pub fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("iSCSI: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read_again() {
        let mut pdu = Pdu::new(Opcode::Login).immediate();
        pdu.set_u32(16, 7);
        pdu.set_lun(300);
        pdu.data = b"InitiatorName=iqn.x\0".to_vec();
        pdu.data.push(b'!');
        let mut wire = Vec::new();
        pdu.write(&mut wire).await.unwrap();
        assert_eq!(wire.len(), 48 + 24);
        let mut stream = wire.as_slice();
        let read = Pdu::read(&mut stream).await.unwrap().unwrap();
        assert_eq!(read.data, pdu.data);
        assert_eq!(
            (read.opcode().unwrap(), read.task(), read.lun()),
            (Opcode::Login, 7, Some(300))
        );
        assert!(read.is_immediate());
        assert_eq!(Pdu::read(&mut stream).await.unwrap(), None);
    }

    #[test]
    fn numbers_of_units_are_read_in_both_forms() {
        for lun in [0, 1, 255, 256, 16383] {
            let mut pdu = Pdu::new(Opcode::Command);
            pdu.set_lun(lun);
            assert_eq!(pdu.lun(), Some(lun));
        }
        let mut pdu = Pdu::new(Opcode::Command);
        pdu.set_bytes(8, &[0xc1, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(pdu.lun(), None);
    }
}
