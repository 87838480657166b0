//! Between a stand-in for a host tool and the process behind it: a socket, messages (lines of JSON), and descriptors.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

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

/// Why nobody can be asked on a socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {}", path.display())]
pub struct SocketError {
    /// The socket.
    pub path: PathBuf,
    /// What the kernel said.
    pub source: io::Error,
}

/// Answers on a socket for as long as this is held.
#[derive(Debug)]
pub struct Answering {
    socket: PathBuf,
    stop: CancellationToken,
}

impl Answering {
    /// Gives every connection to the socket to `answer`, on a thread of its own. Whoever had the socket before has lost it.
    pub fn start(
        socket: &Path,
        answer: impl Fn(UnixStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self, SocketError> {
        let listener = listen(socket).map_err(|source| SocketError {
            path: socket.to_owned(),
            source,
        })?;
        let stop = CancellationToken::new();
        let (stopped, answer) = (stop.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.is_cancelled() {
                    return;
                }
                let (Ok(stream), answer) = (stream, Arc::clone(&answer)) else {
                    continue;
                };
                thread::spawn(move || {
                    if let Err(error) = answer(stream) {
                        tracing::warn!(%error, "A tool was not answered to the end.");
                    }
                });
            }
        });
        Ok(Self {
            socket: socket.to_owned(),
            stop,
        })
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Answers nobody any more. Called twice: nobody is answered.
    pub fn stop(&self) {
        if self.stop.is_cancelled() {
            return;
        }
        self.stop.cancel();
        // Wakes the thread that waits for the next connection, which then sees that it is over.
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = socket.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // Under another name until it listens: who sees the socket may ask at once.
    let unheard = socket.with_extension("new");
    match std::fs::remove_file(&unheard) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unheard)?;
    std::fs::rename(&unheard, socket)?;
    Ok(listener)
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
