"""What every gRPC protocol here shares: messages as bytes and back, and the text of a failed call.

The same message gives the same bytes. Bytes that are no message are reported in grpc-go's words, which its users know.
"""

from __future__ import annotations

from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

_M = TypeVar("_M", bound=Message)

#: A status travels in a header, and peers see nothing of one over 8 KiB. Escaped, a byte takes up to three.
_MAX_DETAILS_BYTES: Final = 2048


class InvalidMessage(Exception):
    """What a peer sent is no message of the kind that was due; the text is grpc-go's."""

    def __init__(self) -> None:
        super().__init__("grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data")


def encode(message: Message) -> bytes:
    """The same bytes for the same message: maps sorted by key."""
    return message.SerializeToString(deterministic=True)


def decode(kind: type[_M], data: bytes) -> _M:
    """The message in ``data``. Raises Garbled; gRPC's own way is to log it and hand on None."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidMessage from error


def truncate_details(details: str) -> str:
    """``details``, cut to what fits into a gRPC status."""
    data = details.encode(errors="replace")
    if len(data) <= _MAX_DETAILS_BYTES:
        return data.decode()
    return data[: _MAX_DETAILS_BYTES - 3].decode(errors="ignore") + "..."
