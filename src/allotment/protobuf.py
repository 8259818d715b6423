"""Protobuf messages as bytes and back, for every protocol that speaks it: what gRPC calls serialising.

The same message gives the same bytes, and what is no message is said in grpc-go's words, since its peers know these.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

_M = TypeVar("_M", bound=Message)


class Garbled(Exception):
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
        raise Garbled from error
