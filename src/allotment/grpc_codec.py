"""Protobuf encoding and decoding, and error texts, for all gRPC services and clients of Allotment.

Encoding is deterministic. The errors have the texts of grpc-go, which Kubernetes users know and search for.
"""

from __future__ import annotations

from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

_M = TypeVar("_M", bound=Message)

#: A status is sent in an HTTP/2 header, and clients drop headers over 8 KiB. Percent encoding triples a byte.
_MAX_DETAILS_BYTES: Final = 2048


class InvalidMessage(Exception):
    """Raised for bytes that are not a message of the expected type; the text is grpc-go's."""

    def __init__(self) -> None:
        super().__init__("grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data")


def encode(message: Message) -> bytes:
    """Return the message as bytes, equal for equal messages: map entries are sorted by key."""
    return message.SerializeToString(deterministic=True)


def decode(kind: type[_M], data: bytes) -> _M:
    """Parse ``data`` as a message of type ``kind``. Raises InvalidMessage.

    A deserializer that raises in gRPC's own code is logged, and the caller gets None.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidMessage from error


def truncate_details(details: str) -> str:
    """Return ``details``, shortened to fit into a gRPC status."""
    data = details.encode(errors="replace")
    if len(data) <= _MAX_DETAILS_BYTES:
        return data.decode()
    return data[: _MAX_DETAILS_BYTES - 3].decode(errors="ignore") + "..."
