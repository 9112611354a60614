"""Topics of the state store: where requests go, and where replies and notifications come from."""

from __future__ import annotations

INVOKE_TOPIC = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke"
_NOTIFY_PREFIX = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8"


def response_topic(client_id: str) -> str:
    """Where a client receives its replies; it may do so without a rule of its own."""
    return f"clients/{client_id}/services/statestore/_any_/command/invoke/response"


def notification_filter(client_id: str) -> str:
    """All notifications of a client."""
    return f"{_notification_prefix(client_id)}+"


def notified_key(topic: str, client_id: str) -> bytes | None:
    """The key that a notification on this topic is about; ``None`` if the topic is another."""
    prefix = _notification_prefix(client_id)
    if not topic.startswith(prefix):
        return None
    try:
        return bytes.fromhex(topic[len(prefix) :])
    except ValueError:
        return None


def _notification_prefix(client_id: str) -> str:
    return f"{_NOTIFY_PREFIX}/{client_id.encode().hex().upper()}/command/notify/"
