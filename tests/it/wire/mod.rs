//! The server over real sockets, against broken and hostile clients.

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
