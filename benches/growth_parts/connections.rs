//! Responses a second by the number of callers, and memory by the number of idle connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::load_parts::callers::{self, Compared, Connections, Request, middle};
use crate::load_parts::servers::{Running, Server};
use crate::plot::{self, Line, grouped};

const CALLERS: [u32; 4] = [1, 10, 100, 1_000];
const SLICES: usize = 30;
const IDLE: [u32; 3] = [100, 1_000, 10_000];
/// How long connections are idle before the memory of the server is read.
const IDLES: Duration = Duration::from_secs(3);
/// Files that a process needs beside its connections.
const FILES: u32 = 100;

/// Reads of a plan by its slug, by more and more callers, from our server and from a bare hyper.
pub(crate) async fn answers() {
    println!("\n| callers | ours, requests/s | bare hyper | ratio | middle half |");
    println!("| ---: | ---: | ---: | ---: | --- |");
    let mut lines = ["ours", "bare hyper"]
        .map(|name| Line { name: format!("{name}, requests/s"), points: Vec::new() });
    for callers in CALLERS {
        // New servers each time, because a server accepts a thousand connections from one address.
        let ours = Running::start(Server::Ours, None);
        let request = Request::get("/subscription-plans/pro", &ours.caller());
        let body = callers::one(ours.address, &request).await;
        let hyper = Running::start(Server::Hyper, Some(&body));
        let count = usize::try_from(callers).unwrap();
        let first = Connections::open(ours.address, count, &request).await;
        let second = Connections::open(hyper.address, count, &request).await;
        let compared = Compared::of(first, second, SLICES).await;
        let (left, right) = (middle(compared.first).0, middle(compared.second).0);
        let (ratio, low, high) = middle(compared.ratios);
        let (told, other) = (grouped(left), grouped(right));
        println!("| {callers} | {told} | {other} | {ratio:.2} | {low:.2} to {high:.2} |");
        for (line, value) in lines.iter_mut().zip([left, right]) {
            line.points.push((f64::from(callers), value));
        }
    }
    plot::lines("Growth over connections: a plan by its slug", "callers at once", grouped, &lines);
}

/// The memory of idle connections, of our server and of a bare hyper.
pub(crate) async fn idle() {
    println!("\n| idle connections | ours, MiB | KiB for each | bare hyper, MiB | KiB for each |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    let ours = held(Server::Ours).await;
    let hyper = held(Server::Hyper).await;
    for ((count, ours), (_, hyper)) in ours.into_iter().zip(hyper) {
        println!("| {} | {ours} | {hyper} |", grouped(count.into()));
    }
    let most = open_files();
    if most < IDLE[IDLE.len() - 1] + FILES {
        println!("\nmore were not possible: a process here may open {most} files");
    }
}

/// The memory of a server with more and more idle connections: in MiB, and in KiB for each connection.
async fn held(server: Server) -> Vec<(u32, String)> {
    let server = Running::start(server, None);
    let at_rest = server.resident();
    let mut told = vec![(0, format!("{:.1} |", at_rest as f64 / 1024.0))];
    let most = open_files().saturating_sub(FILES);
    let mut open = Vec::new();
    for count in IDLE.map(|wanted| wanted.min(most)) {
        while open.len() < usize::try_from(count).unwrap() {
            open.push(connection(server.address, open.len()).await);
        }
        tokio::time::sleep(IDLES).await;
        let resident = server.resident();
        let each = (resident - at_rest) as f64 / f64::from(count);
        told.push((count, format!("{:.1} | {each:.1}", resident as f64 / 1024.0)));
    }
    told
}

/// A connection that has had a response. The server accepts a thousand from one address, so each 500 have another one.
async fn connection(server: SocketAddr, nth: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let from = Ipv4Addr::new(127, 0, 0, u8::try_from(2 + nth / 500).unwrap());
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 1_024];
    let read = stream.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "the server hung up");
    stream
}

fn open_files() -> u32 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    // The limit "unlimited" counts as the largest number.
    line.split_ascii_whitespace().next().unwrap().parse().unwrap_or(u32::MAX)
}
