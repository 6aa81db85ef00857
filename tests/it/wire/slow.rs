//! Slow clients: slow heads, slow bodies, slow readers, and idle connections.

use subscription_http::{Limits, Timeouts};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep};

use super::world::{DEADLINE, Raw, SHORT, Wire, get, plan, post, post_plan};

fn impatient() -> Limits {
    Limits::default().with_head_timeout(SHORT).with_idle_timeout(SHORT).with_send_timeout(SHORT * 2)
}

#[tokio::test]
async fn a_head_that_takes_too_long_is_cut_off() {
    let wire = Wire::limited(impatient()).await;
    let cases = [
        ("nothing", ""),
        ("half of HTTP/2's greeting", "PRI * HT"),
        ("a method", "GET"),
        ("a line", "GET /health/live HTTP/1.1\r\n"),
        ("all but the end", "GET /health/live HTTP/1.1\r\nHost: localhost\r\n"),
        ("HTTP/2's greeting and no more", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ];
    let check = async |(case, sent): (&str, &str)| {
        let mut raw = wire.connect().await;
        raw.send(sent).await;

        let back = raw.closed().await;

        assert!(!back.starts_with("HTTP/1.1 2"), "{case}: {back}");
        wire.lives(case).await;
    };
    // At once: they mostly wait.
    let [one, two, three, four, five, six] = cases;
    tokio::join!(check(one), check(two), check(three), check(four), check(five), check(six));
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    let wire = Wire::limited(impatient()).await;
    let mut raw = wire.connect().await;
    raw.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n").await;
    let begun = Instant::now();
    while raw.stream.write_all(b"x-a: b\r\n").await.is_ok() {
        assert!(begun.elapsed() < DEADLINE, "it is still taken");
        sleep(SHORT / 10).await;
    }
    wire.lives("a dripping head").await;
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_answered_408() {
    let timeouts = Timeouts::default().with_body(SHORT);
    let wire = Wire::with(Limits::default(), timeouts).await;
    let body = plan("slow");
    let cases = [
        ("no byte", format!("Content-Length: {}\r\n", body.len()), String::new()),
        ("all but one", format!("Content-Length: {}\r\n", body.len() + 1), body.clone()),
        ("no chunk", "Transfer-Encoding: chunked\r\n".into(), String::new()),
        (
            "no end",
            "Transfer-Encoding: chunked\r\n".into(),
            format!("{:x}\r\n{body}\r\n", body.len()),
        ),
    ];
    let check = async |(case, headers, sent): (&str, String, String)| {
        let mut raw = wire.connect().await;
        raw.send(post("/subscription-plans", &headers) + &sent).await;

        let answer = raw.answer().await;

        assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"), "{case}");
        assert_eq!(raw.closed().await, "", "{case}");
        wire.lives(case).await;
    };
    // At once: they mostly wait.
    let [one, two, three, four] = cases;
    tokio::join!(check(one), check(two), check(three), check(four));
}

#[tokio::test]
async fn a_body_that_drips_is_answered_408() {
    let timeouts = Timeouts::default().with_body(SHORT);
    let wire = Wire::with(Limits::default(), timeouts).await;
    let mut raw = wire.connect().await;
    raw.send(post("/subscription-plans", "Content-Length: 60000\r\n")).await;
    let begun = Instant::now();
    while begun.elapsed() < SHORT * 2 {
        raw.send(" ").await;
        sleep(SHORT / 10).await;
    }

    let answer = raw.answer().await;

    assert_eq!(answer.status, 408);
    wire.lives("a dripping body").await;
}

#[tokio::test]
async fn a_connection_that_idles_after_a_request_is_closed() {
    let wire = Wire::limited(impatient()).await;
    let mut raw = wire.connect().await;
    for _ in 0..3 {
        raw.send(get("/health/live")).await;
        assert_eq!(raw.answer().await.status, 200);
        sleep(SHORT / 3).await;
    }
    assert_eq!(raw.closed().await, "");
}

#[tokio::test]
async fn a_request_longer_than_an_idle_one_may_last_is_answered() {
    let limits = impatient();
    let (wire, store) = super::world::over(super::world::Hangs::default(), limits).await;
    let mut raw = wire.connect().await;
    raw.send(get("/subscription-plans/pro")).await;
    store.spy.came.notified().await;
    sleep(SHORT * 4).await;
    store.spy.go.notify_one();

    assert_eq!(raw.answer().await.status, 404);
}

/// Asks for far more than fits into the buffers on the way, and fetches nothing.
#[tokio::test]
async fn those_who_do_not_fetch_their_answers_are_cut_off() {
    let wire = Wire::limited(impatient()).await;
    let mut honest = wire.connect().await;
    for n in 0..100 {
        honest.send(post_plan(&format!("plan-{n}"))).await;
        assert_eq!(honest.answer().await.status, 201, "{n}");
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut greedy = socket.connect(wire.address).await.unwrap();
    let request = get("/subscription-plans?limit=200");
    let begun = Instant::now();
    loop {
        let sent = tokio::time::timeout(SHORT, greedy.write_all(request.as_bytes())).await;
        if let Ok(Err(_)) = sent {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "it is still served");
        tokio::task::yield_now().await;
    }
    wire.lives("a slow reader").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idlers_are_in_nobodys_way() {
    let wire = Wire::limited(Limits::default().with_connections_per_peer(2_000)).await;
    let mut idlers = Vec::new();
    for n in 0..1_000 {
        let mut idler = wire.connect().await;
        match n % 3 {
            0 => {}
            1 => idler.send("GET /health/live HTTP/1.1\r\n").await,
            _ => {
                idler.send(get("/health/live")).await;
                assert_eq!(idler.answer().await.status, 200, "{n}");
            }
        }
        idlers.push(idler);
    }
    let mut honest = wire.connect().await;
    let begun = Instant::now();
    for _ in 0..100 {
        honest.send(get("/health/live")).await;
        assert_eq!(honest.answer().await.status, 200);
    }
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    wire.lives("idlers").await;
    // A connection that is idle after a request may send another.
    for idler in idlers.iter_mut().skip(2).step_by(3) {
        idler.send(get("/health/live")).await;
        assert_eq!(idler.answer().await.status, 200);
    }
}

/// A burst of connections is accepted at once: the kernel drops none, which would retry after a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_connections_loses_nobody() {
    let wire = Wire::new().await;
    let before = sent_away();

    let burst: Vec<_> = (0..800).map(|_| tokio::spawn(Raw::to(wire.address))).collect();
    for one in burst {
        one.await.unwrap();
    }

    assert_eq!(sent_away(), before);
}

/// How many connections the kernel has sent away because nobody took those before them.
fn sent_away() -> u64 {
    let counters = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = counters.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let numbers = lines.next().unwrap_or_default().split_whitespace();
    let mut both = names.zip(numbers);
    let number = both.find(|(name, _)| *name == "ListenOverflows").map(|(_, number)| number);
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}
