//! Lets kubelets before 1.26 and old Go sidecars in.
//!
//! Their gRPC library sends the path of the socket as the `:authority` of each call
//! (`/var/lib/kubelet/plugins/x/csi.sock`, kubernetes/kubernetes#112597), and some newer callers send it with `%2F`.
//! Neither is a host name, so our HTTP/2 library resets the call before any code of ours sees it: without this
//! module no driver would even register there.
//!
//! The bytes are mended on their way in: in the literal that carries the authority each `/` and `%` becomes `-`.
//! All three have six bits in the Huffman code of HPACK (RFC 7541, appendix B), so nothing changes its length, the
//! table of repeated headers stays in step, and no state has to be kept. Whatever is not understood passes through
//! unchanged, for the HTTP/2 library to judge.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// What every HTTP/2 client sends first.
const PREFACE_LENGTH: usize = 24;
const FRAME_HEADER_LENGTH: usize = 9;
const FRAME_TYPE_HEADERS: u8 = 1;
const FLAG_PADDED: u8 = 0x08;
const FLAG_PRIORITY: u8 = 0x20;
/// We never announce larger frames, so one that is larger is a mistake and not worth holding back.
const MAX_FRAME_LENGTH: usize = 16 * 1024;
/// `:authority` in the static table.
const AUTHORITY: usize = 1;

/// A connection whose callers may name the socket's path as authority.
#[derive(Debug)]
pub struct MendedStream {
    inner: UnixStream,
    /// Received and not yet handed on.
    held: BytesMut,
    /// So many bytes at the front of `held` need no more looking at.
    ready: usize,
    /// This many of the next bytes are not a header frame.
    skip: usize,
}

impl MendedStream {
    pub(super) fn new(inner: UnixStream) -> Self {
        Self {
            inner,
            held: BytesMut::new(),
            ready: 0,
            skip: PREFACE_LENGTH,
        }
    }

    /// Looks at what arrived: moves `ready` over everything that is complete, and mends header frames.
    fn advance(&mut self) {
        loop {
            let rest = &mut self.held[self.ready..];
            if self.skip > 0 {
                let passing = self.skip.min(rest.len());
                self.skip -= passing;
                self.ready += passing;
                if self.skip > 0 {
                    return;
                }
                continue;
            }
            if rest.len() < FRAME_HEADER_LENGTH {
                return;
            }
            let length =
                usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
            let (kind, flags) = (rest[3], rest[4]);
            let frame = FRAME_HEADER_LENGTH + length;
            if kind != FRAME_TYPE_HEADERS || length > MAX_FRAME_LENGTH {
                self.skip = frame;
                continue;
            }
            if rest.len() < frame {
                return;
            }
            mend_headers(&mut rest[FRAME_HEADER_LENGTH..frame], flags);
            self.ready += frame;
        }
    }
}

impl AsyncRead for MendedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.ready == 0 {
            let mut chunk = [0; 8 * 1024];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                // The end, maybe in the middle of a frame: hand on what there is.
                self.ready = self.held.len();
                break;
            }
            self.held.extend_from_slice(chunk.filled());
            self.advance();
        }
        let passing = self.ready.min(buf.remaining());
        buf.put_slice(&self.held[..passing]);
        self.held.advance(passing);
        self.ready -= passing;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MendedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl Connected for MendedStream {
    type ConnectInfo = <UnixStream as Connected>::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.inner.connect_info()
    }
}

/// Mends the authority in the payload of a header frame; padding and priority stand around the header block.
fn mend_headers(payload: &mut [u8], flags: u8) {
    let mut start = 0;
    let mut end = payload.len();
    if flags & FLAG_PADDED != 0 {
        let Some(&padding) = payload.first() else {
            return;
        };
        start += 1;
        end = end.saturating_sub(usize::from(padding));
    }
    if flags & FLAG_PRIORITY != 0 {
        start += 5;
    }
    if let Some(block) = payload.get_mut(start..end) {
        // `None` means the block is malformed or goes on in the next frame; both are fine here.
        let _ = mend_block(block);
    }
}

/// Walks the header fields of a block (RFC 7541, section 6) up to its end.
fn mend_block(block: &mut [u8]) -> Option<()> {
    let mut at = 0;
    while at < block.len() {
        let first = block[at];
        let prefix = match first {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let name = integer(block, &mut at, prefix)?;
        if first >= 0x80 || first & 0xe0 == 0x20 {
            // A field from a table, or a new table size: no text follows.
            continue;
        }
        if name == 0 {
            let (_, end) = string(block, &mut at)?;
            at = end;
        }
        let huffman = block.get(at)? & 0x80 != 0;
        let (start, end) = string(block, &mut at)?;
        let text = block.get_mut(start..end)?;
        if name == AUTHORITY {
            if huffman {
                mend_huffman(text);
            } else {
                mend_plain(text);
            }
        }
        at = end;
    }
    Some(())
}

/// Where the text of a string literal starts and ends. Moves `at` behind its length.
fn string(block: &[u8], at: &mut usize) -> Option<(usize, usize)> {
    let length = integer(block, at, 7)?;
    Some((*at, at.checked_add(length)?))
}

/// A number that begins in the low `prefix` bits of the byte at `at` (RFC 7541, section 5.1).
fn integer(block: &[u8], at: &mut usize, prefix: u32) -> Option<usize> {
    let full = (1 << prefix) - 1;
    let mut value = usize::from(*block.get(*at)?) & full;
    *at += 1;
    if value < full {
        return Some(value);
    }
    // Four more bytes are far beyond any header we would see.
    for shift in [0, 7, 14, 21] {
        let byte = usize::from(*block.get(*at)?);
        *at += 1;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn mend_plain(text: &mut [u8]) {
    for byte in text {
        if matches!(byte, b'/' | b'%') {
            *byte = b'-';
        }
    }
}

/// The same, bit by bit. The code is canonical: the first bits alone say how long a symbol is.
fn mend_huffman(text: &mut [u8]) {
    const PERCENT: u8 = 0b01_0101;
    const HYPHEN: u8 = 0b01_0110;
    const SLASH: u8 = 0b01_1000;

    let end = text.len() * 8;
    let mut at = 0;
    while at < end {
        let length = match bits(text, at, 8) {
            ..0x50 => 5,
            0x50..0xb8 => 6,
            0xb8..0xf8 => 7,
            0xf8..0xfe => 8,
            // A rare character, or the padding at the end.
            _ => return,
        };
        if at + length > end {
            return;
        }
        if length == 6 && matches!(bits(text, at, 6), SLASH | PERCENT) {
            for (index, bit) in (at..at + 6).enumerate() {
                let mask = 0x80 >> (bit % 8);
                if HYPHEN >> (5 - index) & 1 == 1 {
                    text[bit / 8] |= mask;
                } else {
                    text[bit / 8] &= !mask;
                }
            }
        }
        at += length;
    }
}

/// `count` bits from bit `at` on; behind the end there are ones, as padding has them.
fn bits(text: &[u8], at: usize, count: usize) -> u8 {
    let byte = |index: usize| u16::from(text.get(index).copied().unwrap_or(0xff));
    let window = byte(at / 8) << 8 | byte(at / 8 + 1);
    let aligned = (window << (at % 8)) >> 8;
    u8::try_from(aligned >> (8 - count)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
