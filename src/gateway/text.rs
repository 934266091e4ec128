//! Short header values, put together on the stack.
//!
//! Some are written anew for each request. Through a formatted `String` each costs the machinery of
//! formatting and two allocations; here it costs one, which holds the value itself. What does not
//! fit is no header value of ours.

use std::fmt;
use std::net::IpAddr;

use http::HeaderValue;

#[cfg(test)]
mod tests;

/// Room for the longest value: two numbers of 20 digits, and what stands around them.
const ROOM: usize = 64;

/// A value that is being written.
pub struct Text {
    bytes: [u8; ROOM],
    length: usize,
}

impl Text {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; ROOM],
            length: 0,
        }
    }

    /// Appends visible ASCII.
    pub fn text(mut self, text: &str) -> Self {
        self.push(text.as_bytes());
        self
    }

    /// Appends a number in decimal digits.
    pub fn number(mut self, number: u64) -> Self {
        self.push(itoa::Buffer::new().format(number).as_bytes());
        self
    }

    /// Appends a number in 16 hexadecimal digits.
    pub fn hex(mut self, number: u64) -> Self {
        let digits: [u8; 16] = std::array::from_fn(|place| {
            let digit = number >> (60 - 4 * place) & 15;
            b"0123456789abcdef"[digit as usize]
        });
        self.push(&digits);
        self
    }

    /// Appends an address, without a port.
    pub fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets().map(u64::from);
                let begun = self.number(a).text(".").number(b).text(".");
                begun.number(c).text(".").number(d)
            }
            IpAddr::V6(address) => {
                let mut text = self;
                // It takes all that it has room for; 39 bytes are the longest address.
                let _ = fmt::write(&mut text, format_args!("{address}"));
                text
            }
        }
    }

    /// The value.
    pub fn value(&self) -> HeaderValue {
        // Visible ASCII makes a value; an empty one stands for what cannot be.
        HeaderValue::from_bytes(&self.bytes[..self.length]).unwrap_or(HeaderValue::from_static(""))
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes[self.length..].get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}
