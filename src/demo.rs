//! `aforo demo`: the gateway with nothing else installed. An upstream that echoes, one rule, and
//! three lines to try.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

use axum::Router;
use axum::http::{HeaderMap, Method, Uri};
use thiserror::Error;

use crate::app::{Start, StartError};
use crate::config::{Format, Source};
use crate::gateway::policy::YamlPolicy;

/// Why the demo did not start.
#[derive(Debug, Error)]
pub enum DemoError {
    /// There is no port for the echo upstream.
    #[error("cannot start the echo upstream: {0}")]
    Echo(io::Error),
    /// The gateway did not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Runs the demo.
///
/// # Errors
///
/// Where it cannot start.
pub fn run(
    listen: SocketAddr,
    admin: SocketAddr,
    log_format: Option<Format>,
) -> Result<(), DemoError> {
    let echo = start_echo().map_err(DemoError::Echo)?;
    let source = Source::BuiltIn {
        name: "demo".to_owned(),
        text: configuration(listen, admin, echo),
    };
    Start::new(source)
        .log_format(log_format)
        .when_ready(move || {
            // The gateway runs all the same where nobody reads this.
            let _ = writeln!(io::stdout(), "{}", instructions(listen, admin));
        })
        .run(YamlPolicy)?;
    Ok(())
}

fn configuration(listen: SocketAddr, admin: SocketAddr, echo: SocketAddr) -> String {
    format!(
        "version: 1
listeners: [{{ address: \"{listen}\" }}]
admin: {{ address: \"{admin}\" }}
upstreams: {{ echo: {{ servers: [\"{echo}\"] }} }}
routes: [{{ id: create-order, methods: [POST], path: /orders, upstream: echo }}]
limits:
  rules:
    # One token a minute.
    - {{ tenant: shop-a, route: create-order, capacity: 2, refill_per_second: {} }}
",
        1.0 / 60.0
    )
}

fn instructions(listen: SocketAddr, admin: SocketAddr) -> String {
    let curl = format!("curl -i -X POST -H 'X-Api-Key: shop-a' http://{listen}/orders");
    format!(
        "
Aforo listens on http://{listen}. The tenant shop-a may POST /orders 2 times at once, and then
once a minute. Try it in another terminal:

  {curl}   # 200, one token left
  {curl}   # 200, none left
  {curl}   # 429, and when to come back

Metrics: http://{admin}/metrics   Stop: Ctrl-C
"
    )
}

/// An upstream in this process that answers with what it was asked. Its port is bound before
/// anybody is told of it.
fn start_echo() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new()
        .name("echo".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                axum::serve(listener, Router::new().fallback(echo)).await
            })
        })?;
    Ok(address)
}

async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: String) -> String {
    let mut text = format!("{method} {uri}\n");
    for (name, value) in &headers {
        text.push_str(&format!(
            "{name}: {}\n",
            String::from_utf8_lossy(value.as_bytes())
        ));
    }
    if !body.is_empty() {
        text.push('\n');
        text.push_str(&body);
    }
    text
}
