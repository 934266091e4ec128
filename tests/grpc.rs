//! gRPC through the gateway: a client and a server of tonic's, and what the client makes of answers
//! that the gateway gives itself.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Config, Gateway, ONE_A_DAY, PREFACES, Upstream, curl, free_port};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::metadata::MetadataValue;
use tonic::server::StreamingService;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};

/// Messages are bytes: what they mean is nothing to the gateway.
#[derive(Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; bytes::Buf::remaining(buffer)];
        bytes::Buf::copy_to_slice(buffer, &mut message);
        Ok(Some(message))
    }
}

type Pinned<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Messages = Pin<Box<dyn Stream<Item = Result<Vec<u8>, Status>> + Send>>;

/// Answers each message with itself, as it comes; `/test.Echo/Fail` fails after the last.
#[derive(Clone)]
struct Echo;

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = Call {
            fails: request.uri().path().ends_with("/Fail"),
        };
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Raw);
            Ok(grpc.streaming(call, request).await)
        })
    }
}

struct Call {
    fails: bool,
}

impl StreamingService<Vec<u8>> for Call {
    type Response = Vec<u8>;
    type ResponseStream = Messages;
    type Future = Pinned<Result<Response<Messages>, Status>>;

    fn call(&mut self, request: Request<Streaming<Vec<u8>>>) -> Self::Future {
        let fails = self.fails;
        Box::pin(async move {
            let last = fails.then(|| Err(Status::not_found("no such thing")));
            let messages = request.into_inner().chain(tokio_stream::iter(last));
            Ok(Response::new(Box::pin(messages) as Messages))
        })
    }
}

/// A gRPC server, and where it listens.
async fn server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(Server::builder().serve_with_incoming(Echo, incoming));
    address
}

fn config(upstream: &str) -> Config {
    Config::with_upstream_address(upstream)
        .listener("h2c: true")
        .upstream_settings("protocol: h2c, read_timeout: 2s, retries: 0")
        .route("id: echo, methods: [POST], path: /test.Echo/*")
}

/// A client of the gateway, with this key.
struct Client {
    grpc: tonic::client::Grpc<Channel>,
    key: Option<&'static str>,
}

impl Client {
    async fn connect(gateway: &Gateway, key: Option<&'static str>) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", gateway.address())).unwrap();
        let channel = endpoint.connect().await.unwrap();
        Self {
            grpc: tonic::client::Grpc::new(channel),
            key,
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(key) = self.key {
            let key = MetadataValue::from_static(key);
            request.metadata_mut().insert("x-api-key", key);
        }
        request.set_timeout(Duration::from_secs(30));
        request
    }

    async fn unary(
        &mut self,
        path: &'static str,
        message: &[u8],
    ) -> Result<Response<Vec<u8>>, Status> {
        self.grpc.ready().await.unwrap();
        let request = self.request(message.to_vec());
        let path = http::uri::PathAndQuery::from_static(path);
        self.grpc.unary(request, path, Raw).await
    }

    async fn stream(
        &mut self,
        messages: impl Stream<Item = Vec<u8>> + Send + 'static,
    ) -> Result<Streaming<Vec<u8>>, Status> {
        self.grpc.ready().await.unwrap();
        let request = self.request(messages);
        let path = http::uri::PathAndQuery::from_static("/test.Echo/Stream");
        let answer = self.grpc.streaming(request, path, Raw).await?;
        Ok(answer.into_inner())
    }
}

fn says(status: &Status, name: &str) -> Option<String> {
    let value = status.metadata().get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_counted_and_over_the_limit_resources_are_exhausted() {
    let gateway = Gateway::start(&config(&server().await).rule("shop-a", "echo", 2, ONE_A_DAY));
    let mut client = Client::connect(&gateway, Some("shop-a")).await;

    let first = client.unary("/test.Echo/Unary", b"one").await.unwrap();
    assert_eq!(first.metadata().get("x-ratelimit-remaining").unwrap(), "1");
    assert_eq!(first.into_inner(), b"one");
    client.unary("/test.Echo/Unary", b"two").await.unwrap();
    let status = client
        .unary("/test.Echo/Unary", b"three")
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let wait: u64 = says(&status, "retry-after").unwrap().parse().unwrap();
    assert!((80_000..=86_400).contains(&wait), "{wait}");
    assert_eq!(says(&status, "x-ratelimit-remaining").as_deref(), Some("0"));
    assert_eq!(says(&status, "x-ratelimit-limit").as_deref(), Some("2"));
    // The connection goes on: the answer ended one stream of it.
    let again = client.unary("/test.Echo/Unary", b"four").await.unwrap_err();
    assert_eq!(again.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_stream_pass_one_by_one_and_trailers_at_the_end() {
    let gateway = Gateway::start(&config(&server().await));
    let mut client = Client::connect(&gateway, Some("shop-a")).await;

    // The next message is sent when the last one has come back: nobody may hold one.
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let messages = tokio_stream::wrappers::ReceiverStream::new(receiver);
    sender.send(vec![0; 100_000]).await.unwrap();
    let mut answers = client.stream(messages).await.unwrap();
    for size in 0..50_usize {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!(answer.len(), if size == 0 { 100_000 } else { size });
        sender.send(vec![1; size + 1]).await.unwrap();
    }
    drop(sender);
    assert_eq!(answers.message().await.unwrap().unwrap().len(), 50);
    assert_eq!(answers.message().await.unwrap(), None);

    let status = client.unary("/test.Echo/Fail", b"x").await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(status.message(), "no such thing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_over_the_limit_is_refused_while_its_client_still_sends() {
    let gateway = Gateway::start(&config(&server().await).rule("shop-a", "echo", 1, ONE_A_DAY));
    let mut client = Client::connect(&gateway, Some("shop-a")).await;
    client.unary("/test.Echo/Unary", b"one").await.unwrap();

    let endless = tokio_stream::iter(0_u64..).throttle(Duration::from_millis(5));
    let status = match client.stream(endless.map(|_| vec![0; 1_000])).await {
        Ok(mut answers) => answers.message().await.unwrap_err(),
        Err(status) => status,
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_status() {
    let gateway = Gateway::start(&config(&server().await));
    let mut stranger = Client::connect(&gateway, None).await;
    let status = stranger.unary("/test.Echo/Unary", b"x").await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(
        says(&status, "www-authenticate")
            .unwrap()
            .starts_with("ApiKey")
    );

    let mut client = Client::connect(&gateway, Some("shop-a")).await;
    let status = client.unary("/test.Other/Unary", b"x").await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let status = client.unary("/test.Echo/%2F", b"x").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);

    let nobody = format!("127.0.0.1:{}", free_port());
    let gateway = Gateway::start(&config(&nobody));
    let mut client = Client::connect(&gateway, Some("shop-a")).await;
    let status = client.unary("/test.Echo/Unary", b"x").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(says(&status, "x-ratelimit-remaining").is_some());

    // One that takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let gateway = Gateway::start(&config(&address));
    let mut client = Client::connect(&gateway, Some("shop-a")).await;
    let status = client.unary("/test.Echo/Unary", b"x").await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
}

#[test]
fn a_plain_listener_speaks_http_2_where_it_is_asked_to_and_http_1_beside_it() {
    let upstream = Upstream::start();
    let speaks = Gateway::start(&Config::new(&upstream).listener("h2c: true"));
    let does_not = Gateway::start(&Config::new(&upstream));
    let ask = |gateway: &Gateway, version: &str| {
        let url = format!("http://{}/x", gateway.address());
        curl(&[version, "-H", "X-Api-Key: shop-a", &url])
    };

    let by_http_2 = ask(&speaks, "--http2-prior-knowledge").unwrap();
    assert_eq!((by_http_2.version.as_str(), by_http_2.status), ("2", 200));
    let by_http_1 = ask(&speaks, "--http1.1").unwrap();
    assert_eq!((by_http_1.version.as_str(), by_http_1.status), ("1.1", 200));
    ask(&does_not, "--http2-prior-knowledge").unwrap_err();
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_listener_of_both_answers_the_shortest_request_and_lets_the_silent_go() {
    let upstream = Upstream::start();
    let config = Config::new(&upstream)
        .listener("h2c: true")
        .section("timeouts: { idle: 300ms }");
    let gateway = Gateway::start(&config);

    let mut short = gateway.connect();
    short.send(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(short.read_response("GET").unwrap().status, 401);
    let mut similar = gateway.connect();
    let answer = similar.request("PROPFIND", "/", &[("X-Api-Key", "shop-a")], b"");
    assert_eq!(answer.unwrap().status, 200);
    for begins in PREFACES {
        let mut silent = gateway.connect();
        silent.send(begins).unwrap();
        silent.read_to_the_end().unwrap();
    }
}

#[test]
fn cookies_in_headers_of_their_own_are_one_for_an_upstream_of_http_1() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&Config::new(&upstream).listener("h2c: true"));
    let url = format!("http://{}/x", gateway.address());
    let cookies = ["-H", "Cookie: a=1", "-H", "Cookie: b=2"];
    let mut arguments = vec!["--http2-prior-knowledge", "-H", "X-Api-Key: shop-a"];
    arguments.extend(cookies);
    arguments.push(&url);

    assert_eq!(curl(&arguments).unwrap().status, 200);
    assert_eq!(upstream.only().all("Cookie"), ["a=1; b=2"]);
}
