//! A raw HTTP/1.1 client: it shows what was really sent, and whether the connection stays open.

use super::PATIENCE;
use super::http1::{Reader, values};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// What a client of HTTP/2 may have sent when it falls silent before its first request is complete
/// (RFC 9113, 3.4).
pub const PREFACES: [&[u8]; 5] = [
    b"",
    b"PRI",
    b"PRI * HTTP/2.0\r\n\r\nSM",
    // All of it, and no settings.
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    // Settings, and headers that are not the last of their request.
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\0\0\0\0\x01\x82",
];

/// One connection, kept open between requests.
pub struct Client {
    stream: TcpStream,
    reader: Reader,
}

/// What came back, headers as they were sent and in that order.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let reader = Reader::new(stream.try_clone()?);
        Ok(Self { stream, reader })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, raw: &[u8]) -> io::Result<()> {
        self.stream.write_all(raw)
    }

    /// Reads the answer to a request that was sent; `method` is that request's.
    pub fn read_response(&mut self, method: &str) -> io::Result<Response> {
        loop {
            let Some(head) = self.reader.head()? else {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "closed without an answer",
                ));
            };
            let status = head.first_line.split(' ').nth(1).unwrap_or_default();
            let status: u16 = status.parse().map_err(io::Error::other)?;
            if status < 200 {
                continue;
            }
            let no_body = method == "HEAD" || status == 204 || status == 304;
            let body = if no_body {
                Vec::new()
            } else {
                self.reader.body(&head, true)?
            };
            return Ok(Response {
                status,
                headers: head.headers,
                body,
            });
        }
    }

    /// Sends a request and reads the answer. A `Host` is added, and for a body its length.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut raw = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            raw += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            raw += &format!("Content-Length: {}\r\n", body.len());
        }
        raw += "\r\n";
        let mut raw = raw.into_bytes();
        raw.extend_from_slice(body);
        self.send(&raw)?;
        self.read_response(method)
    }

    /// `GET` as a tenant.
    pub fn get(&mut self, tenant: &str, path: &str) -> io::Result<Response> {
        self.request("GET", path, &[("X-Api-Key", tenant)], b"")
    }

    /// Reads until the other side closes.
    pub fn read_to_the_end(&mut self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all)?;
        Ok(all)
    }

    /// Whether the other side has not closed the connection so far.
    pub fn is_open(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let open = match self.stream.peek(&mut [0]) {
            Ok(read) => read > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).unwrap();
        open
    }
}

impl Response {
    /// The value of a header; fails the test where there is more than one.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} is there more than once: {all:?}");
        all.first().copied()
    }

    /// The values of a header, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        values(&self.headers, name)
    }

    /// The value of a header that is there once and is a whole number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name);
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("{name} is {value:?} in {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks that this is a problem of RFC 9457 with this status, and gives its members.
    #[track_caller]
    pub fn problem(&self, status: u16) -> serde_yaml::Mapping {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        // JSON is YAML.
        let members: serde_yaml::Mapping = serde_yaml::from_slice(&self.body).unwrap();
        assert_eq!(
            members["status"].as_u64(),
            Some(u64::from(status)),
            "{members:?}"
        );
        for member in ["type", "title", "detail"] {
            let text = members[member].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "no {member} in {members:?}");
        }
        members
    }

    /// Checks that nothing here speaks of a limit.
    #[track_caller]
    pub fn assert_no_rate_headers(&self) {
        for name in [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "ratelimit",
            "ratelimit-policy",
            "retry-after",
        ] {
            assert_eq!(self.header(name), None, "{self:?}");
        }
    }
}
