//! The server over real sockets, against those who mean it ill.

mod bodies;
mod gone;
mod heads;
mod http2;
mod http2_frames;
mod idle;
mod limits;
mod refusals;
mod slow;
mod smuggling;
mod stop;
mod world;
