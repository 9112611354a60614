//! Responses of the state store on their way to the session that asked.

use crate::ids::ConnectionId;
use crate::message::Message;

/// Client that asked for a response.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// Connection that the request came on.
    pub connection: ConnectionId,
    /// It may publish on the topic of the response, or that is its own.
    pub may_publish: bool,
}

/// A response that waits for PUBACK of its request.
#[derive(Debug)]
pub struct LateResponse {
    /// The response itself.
    pub message: Message,
    /// Client that it is for.
    pub asking: Asking,
}
