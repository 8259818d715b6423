"""JSON byte for byte as the API server stores it, where the server does not know what the JSON means.

Parameters for drivers are kept as the bytes that came, and an update may not change those of a claim: not a space, not
the order of keys, not how a character is escaped. An answer in JSON does not show them: it is written without spaces.
One in protobuf does, and so what was read can be sent back as it is stored. kube-scheduler never meets this, for it
speaks protobuf; claims that kubectl made are not concerned, those of many other clients are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from allotment.cluster.errors import StatusError

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_DECODER: Final = json.JSONDecoder()
#: Go escapes these in JSON, wherever they stand; outside of strings there are none.
_ESCAPED: Final = ((b"&", b"\\u0026"), (b"<", b"\\u003c"), (b">", b"\\u003e"))


def encoded(value: Any) -> bytes:
    """JSON as Go writes it: keys in order, no spaces.

    So what we write first, others can repeat: a driver's apply makes the server write everything anew.

    >>> encoded({"b": "x && y", "a": 1})
    b'{"a":1,"b":"x \\\\u0026\\\\u0026 y"}'
    """
    text = msgspec.json.encode(value, order="deterministic")
    for character, escape in _ESCAPED:
        text = text.replace(character, escape)
    return text


def may_be_of_bytes(error: StatusError) -> bool:
    """Whether an update may have been refused because of bytes that nobody meant to change."""
    return error.code == 422 and "field is immutable" in str(error)


def as_stored(tree: Any, stored: bytes) -> bytes:
    """A tree as JSON, in which every object that ``stored`` (the same in protobuf) has as JSON, too, is as it is there.

    >>> as_stored({"parameters": {"a": 1}}, b'some bytes, { "a": 1 }, and more')
    b'{"parameters":{ "a": 1 }}'
    """
    texts: dict[bytes, bytes] = {}
    for text in _texts(stored):
        with suppress(ValueError):  # what cannot be read is not what we read
            texts.setdefault(encoded(json.loads(text)), text)
    return msgspec.json.encode(_with(tree, texts))


def _with(tree: Any, texts: dict[bytes, bytes]) -> Any:
    if isinstance(tree, list):
        return [_with(item, texts) for item in tree]
    if not isinstance(tree, dict):
        return tree
    text = texts.get(encoded(tree))
    return {key: _with(item, texts) for key, item in tree.items()} if text is None else msgspec.Raw(text)


def _texts(data: bytes) -> Iterator[bytes]:
    """Objects in JSON within other bytes."""
    text, at = data.decode("latin-1"), 0  # a character for every byte
    while (at := text.find("{", at)) >= 0:
        try:
            _, end = _DECODER.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        yield data[at:end]
        at = end
