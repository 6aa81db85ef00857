//! The server over real sockets, against those who mean it ill.

mod bodies;
mod heads;
mod http2;
mod limits;
mod slow;
mod smuggling;
mod stop;
mod world;
