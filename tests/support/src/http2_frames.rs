//! HTTP/2 frames written byte by byte, to send what no HTTP client would send.

/// The start of a connection: the preface, and a SETTINGS frame without settings.
pub fn greeting() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, b""));
    bytes
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The header block of a request, without compression.
pub fn head(method: &str, path: &str) -> Vec<u8> {
    let mut block = field(":method", method);
    for (name, value) in
        [(":scheme", "http"), (":path", path), (":authority", "localhost"), ("client-id", "web")]
    {
        block.extend(field(name, value));
    }
    if method == "POST" {
        block.extend(field("content-type", "application/json"));
    }
    block
}

/// One header field, in the form that is not added to the dynamic table of HPACK.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.extend(length(text.len()));
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// A length in HPACK's format for integers (RFC 7541, 5.1), with a prefix of seven bits.
fn length(length: usize) -> Vec<u8> {
    if length < 0x7f {
        return vec![u8::try_from(length).unwrap()];
    }
    let (mut bytes, mut rest) = (vec![0x7f], length - 0x7f);
    while rest >= 0x80 {
        bytes.push(u8::try_from(rest % 0x80).unwrap() | 0x80);
        rest /= 0x80;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// The frame of a request without a body.
pub fn request(stream: u32, method: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(method, path))
}
