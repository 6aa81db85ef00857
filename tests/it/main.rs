//! The workspace's tests: behaviour, told through the public face.
