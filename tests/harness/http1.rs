//! Just enough of HTTP/1.1 to read the messages of either side byte by byte.

use std::io::{self, Read};
use std::net::TcpStream;

/// The first line and the headers of a message, as they were sent.
pub struct Head {
    pub first_line: String,
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The values of a header, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        values(&self.headers, name)
    }
}

/// The values of a header, in order, whatever the case of its name.
pub fn values<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

/// Reads messages from a connection.
pub struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Reader {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// The next head; `None` where the connection was closed between two messages.
    pub fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let bytes: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Ok(Some(parse_head(&String::from_utf8_lossy(&bytes[..end]))));
            }
            if self.fill()? == 0 {
                return match self.buffer.len() {
                    0 => Ok(None),
                    _ => Err(closed("in the middle of a head")),
                };
            }
        }
    }

    /// The body that follows this head; `to_the_end` where it may end with the connection.
    pub fn body(&mut self, head: &Head, to_the_end: bool) -> io::Result<Vec<u8>> {
        let chunked = head
            .all("transfer-encoding")
            .iter()
            .any(|value| value.eq_ignore_ascii_case("chunked"));
        if chunked {
            return self.chunks();
        }
        match head.all("content-length").first() {
            Some(length) => self.exactly(length.parse().map_err(io::Error::other)?),
            None if to_the_end => {
                while self.fill()? > 0 {}
                Ok(std::mem::take(&mut self.buffer))
            }
            None => Ok(Vec::new()),
        }
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size)?);
            self.line()?;
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let bytes: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&bytes[..end]).into_owned());
            }
            if self.fill()? == 0 {
                return Err(closed("in the middle of a line"));
            }
        }
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            if self.fill()? == 0 {
                return Err(closed("in the middle of a body"));
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut part = [0; 16 * 1024];
        let read = self.stream.read(&mut part)?;
        self.buffer.extend_from_slice(&part[..read]);
        Ok(read)
    }
}

fn parse_head(text: &str) -> Head {
    let mut lines = text.split("\r\n");
    let first_line = lines.next().unwrap_or_default().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    Head {
        first_line,
        headers,
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn closed(place: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("closed {place}"))
}
