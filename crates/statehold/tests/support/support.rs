//! What the tests of the running binary share: a server that can be killed and started again, and a
//! connection that speaks packets, or bytes that are none.
#![allow(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod server;
pub(crate) mod wire;
