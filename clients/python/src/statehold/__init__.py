"""The state store of Statehold for asyncio: keys, watches, leases, locks and leader election over MQTT 5.

====================================  ==========================================
to                                    use
====================================  ==========================================
keep keys, and watch them change      ``StateStore``, ``Watch``
have something alone                  ``Lock``, or a ``Lease`` without waiting
agree on one of many                  ``LeaderElection``
====================================  ==========================================

Times are in seconds. Every queue has a limit and every request a timeout.
"""

from .backoff import BackoffLimits
from .client import Client
from .contender import Lost
from .errors import (
    ConnectError,
    Ended,
    ErrorText,
    Loss,
    LossKind,
    MalformedReply,
    NotInTime,
    OperationError,
    OptionsError,
    QueueFull,
    Refused,
    RefusedByStore,
    StateholdError,
    StoreError,
    TimedOut,
    TooLarge,
    WrongStatus,
)
from .hlc import Hlc
from .leader_election import LeaderElection, Leadership, LeaderWatch
from .lease import Lease
from .lock import Lock
from .options import Options, Reconnect
from .replies import Deleted, Entry, Missing, NotApplied, OtherValue, Stored, ValueDeleted, ValueSet
from .session import Connected, Connecting, ConnectionState, HasEnded, Waiting
from .state_store import StateStore
from .watch import Gap, Watch, WatchEvent

__all__ = [
    "BackoffLimits",
    "Client",
    "ConnectError",
    "Connected",
    "Connecting",
    "ConnectionState",
    "Deleted",
    "Ended",
    "Entry",
    "ErrorText",
    "Gap",
    "HasEnded",
    "Hlc",
    "LeaderElection",
    "LeaderWatch",
    "Leadership",
    "Lease",
    "Lock",
    "Loss",
    "LossKind",
    "Lost",
    "MalformedReply",
    "Missing",
    "NotApplied",
    "NotInTime",
    "OperationError",
    "Options",
    "OptionsError",
    "OtherValue",
    "QueueFull",
    "Reconnect",
    "Refused",
    "RefusedByStore",
    "StateStore",
    "StateholdError",
    "StoreError",
    "Stored",
    "TimedOut",
    "TooLarge",
    "ValueDeleted",
    "ValueSet",
    "Waiting",
    "Watch",
    "WatchEvent",
    "WrongStatus",
]
