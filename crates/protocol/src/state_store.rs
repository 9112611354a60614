//! Requests, replies and notifications of the state store protocol.
