//! The messages between a stand-in for a host tool and the process behind it: lines of JSON, and descriptors.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// No message is longer.
const LONGEST: usize = 64 * 1024;

/// Whether what was asked for is done.
#[derive(Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// Go on.
    Granted,
    /// Do not; here is why.
    Refused(String),
}

/// Sends a message.
pub fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives a message. Reads byte by byte: what follows a line may be a descriptor, which must not be lost in a buffer.
pub fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte == [b'\n'] {
            return Ok(serde_json::from_slice(&line)?);
        }
        line.push(byte[0]);
        if line.len() > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Hands a descriptor over.
pub fn hand_over(stream: &UnixStream, descriptor: impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(
        stream,
        &[IoSlice::new(b"d")],
        &mut ancillary,
        SendFlags::empty(),
    )?;
    Ok(())
}

/// Takes a descriptor over.
pub fn take_over(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "no descriptor was received",
    ))
}
