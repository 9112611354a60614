//! Names and fixed values of the user properties that requests, replies and notifications carry.

/// HLC timestamp: of a request, the client's; of a reply or a notification, the version.
pub const TIMESTAMP: &str = "__ts";
/// Fencing token of a SET, DEL or VDEL: an HLC.
pub const FENCING_TOKEN: &str = "__ft";
/// Status of a reply: [`STATUS_OK`] or [`STATUS_VERSION_NOT_SUPPORTED`].
pub const STATUS: &str = "__stat";
/// Version of the protocol, `major.minor`; a request without it has [`PROTOCOL_VERSION_VALUE`].
pub const PROTOCOL_VERSION: &str = "__protVer";
/// With [`STATUS_VERSION_NOT_SUPPORTED`]: the major versions that the server speaks.
pub const SUPPORTED_MAJOR_VERSIONS: &str = "__supProtMajVer";
/// With [`STATUS_VERSION_NOT_SUPPORTED`]: the version that the request asked for.
pub const REQUESTED_VERSION: &str = "__requestProtVer";
/// `true` on a SET: keep the key on disk even where the server keeps the others in memory.
pub const PERSIST: &str = "aio-persistence";
/// `true` on a GET: the reply to it, if there is a value, has [`EXPIRES_AT`] and [`HELD_WITH`] as well.
pub const DETAILS: &str = "statehold-details";
/// When the key expires, in milliseconds since the Unix epoch, or [`NEVER`].
pub const EXPIRES_AT: &str = "statehold-expires-at";
/// The fencing token that is stored with the key, or [`NONE`].
pub const HELD_WITH: &str = "statehold-fencing-token";
/// Value of [`EXPIRES_AT`] of a key that does not expire.
pub const NEVER: &str = "never";
/// Value of [`HELD_WITH`] of a key without a fencing token.
pub const NONE: &str = "none";
/// Accepted and ignored: where a client wants its request handled.
pub const PARTITION: &str = "$partition";
/// A message that goes on longer than others while memory is scarce; its presence counts, whatever its value.
pub const HIGH_PRIORITY: &str = "$high_priority";
/// Accepted and ignored: who sent the request.
pub const SOURCE_ID: &str = "__srcId";
/// Accepted and ignored: who invoked the command; an older name of [`SOURCE_ID`].
pub const INVOKER_ID: &str = "__invId";

/// Value of [`STATUS`] of every reply to a request of a supported version, errors included.
pub const STATUS_OK: &str = "200";
/// Value of [`STATUS`] when the request asks for a major version that the server does not speak.
pub const STATUS_VERSION_NOT_SUPPORTED: &str = "505";
/// Value of [`PROTOCOL_VERSION`] in everything that the server sends.
pub const PROTOCOL_VERSION_VALUE: &str = "1.0";
/// Value of [`SUPPORTED_MAJOR_VERSIONS`].
pub const SUPPORTED_MAJOR_VERSIONS_VALUE: &str = "1";

/// How far ahead of the server's clock a timestamp or a fencing token may be, in milliseconds.
pub const CLOCK_SKEW_MAX_MS: u64 = 60_000;
