//! What an old and a new process say to each other: lines of text, and listening sockets as
//! ancillary data (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::sockets::Socket;

/// The most sockets that are handed over; the system's own bound is 253.
const MOST_SOCKETS: usize = 128;
/// The longest line: room for so many addresses.
const LONGEST_LINE: usize = MOST_SOCKETS * 64;

/// Says one line.
pub fn say(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Hears one line, without its end; None where the other side has gone.
pub fn hear(mut stream: &UnixStream) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    // Byte by byte: what follows the line may be sockets.
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == *b"\n" => return text(line).map(Some),
            Ok(_) if line.len() == LONGEST_LINE => {
                return Err(io::Error::other("the line is too long"));
            }
            Ok(_) => line.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends sockets and their addresses.
pub fn send(stream: &UnixStream, sockets: &[Socket]) -> io::Result<()> {
    if sockets.len() > MOST_SOCKETS {
        let why = format!("more than {MOST_SOCKETS} listeners cannot be handed over");
        return Err(io::Error::other(why));
    }
    let addresses: Vec<String> = sockets
        .iter()
        .map(|(address, _)| address.to_string())
        .collect();
    let line = format!("{}\n", addresses.join(" "));
    let descriptors: Vec<_> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    // There is room for so many.
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(
        stream,
        &[IoSlice::new(line.as_bytes())],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    let mut rest = stream;
    rest.write_all(&line.as_bytes()[sent..])
}

/// Receives sockets and their addresses.
pub fn receive(stream: &UnixStream) -> io::Result<Vec<Socket>> {
    let mut line = vec![0; LONGEST_LINE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut line)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let sockets: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        })
        .flatten()
        .collect();
    line.truncate(received.bytes);
    if line.is_empty() {
        return Err(io::Error::other("it gives nothing away"));
    }
    if line.pop_if(|last| *last == b'\n').is_none() {
        let rest = hear(stream)?.unwrap_or_default();
        line.extend_from_slice(rest.as_bytes());
    }
    let addresses: Vec<SocketAddr> = text(line)?
        .split_whitespace()
        .map(|address| address.parse().map_err(io::Error::other))
        .collect::<io::Result<_>>()?;
    if addresses.len() != sockets.len() {
        let (named, sent) = (addresses.len(), sockets.len());
        return Err(io::Error::other(format!(
            "it names {named} sockets and sends {sent}"
        )));
    }
    Ok(addresses.into_iter().zip(sockets).collect())
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}
