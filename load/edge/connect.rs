//! A connection for each request, and a whole handshake for each connection: how many are answered.
//!
//! `edge-connect ADDRESS SECONDS CERTIFICATE`, by 16 threads that each wait for their answer.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

mod client;

const THREADS: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, seconds, certificate] = &arguments[..] else {
        return Err("usage: edge-connect ADDRESS SECONDS CERTIFICATE".into());
    };
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let tls = client::tls(certificate)?;
    let count = || -> Result<u64, String> {
        let mut answered = 0;
        while Instant::now() < end {
            client::ask(address, Some(&tls), "Connection: close\r\n")
                .map_err(|error| error.to_string())?;
            answered += 1;
        }
        Ok(answered)
    };
    let answered = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(count)).collect();
        let each = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("a client panicked".to_owned()))
        });
        each.sum::<Result<u64, String>>()
    })?;
    println!("{answered}");
    Ok(())
}
