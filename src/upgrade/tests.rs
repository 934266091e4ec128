use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use super::*;

#[test]
fn sockets_arrive_with_their_addresses_and_take_connections() {
    let (old, new) = UnixStream::pair().unwrap();
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let sockets: Vec<Socket> = listeners
        .iter()
        .map(|listener| {
            let copy = OwnedFd::from(listener.try_clone().unwrap());
            (listener.local_addr().unwrap(), copy)
        })
        .collect();

    wire::send(&old, &sockets).unwrap();
    wire::say(&old, YOURS).unwrap();
    let received = wire::receive(&new).unwrap();
    assert_eq!(wire::hear(&new).unwrap().as_deref(), Some(YOURS));

    drop((listeners, sockets));
    assert_eq!(received.len(), 3);
    for (address, socket) in received {
        let listener = TcpListener::from(socket);
        assert_eq!(listener.local_addr().unwrap(), address);
        let _client = TcpStream::connect(address).unwrap();
        listener.accept().unwrap();
    }
}

#[test]
fn whoever_is_gone_gives_nothing() {
    let (old, new) = UnixStream::pair().unwrap();
    drop(old);
    assert!(wire::receive(&new).is_err());
    assert_eq!(wire::hear(&new).unwrap(), None);
}
