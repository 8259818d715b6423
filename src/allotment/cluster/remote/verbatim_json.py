"""Byte-exact JSON of opaque driver parameters, as the API server stores it.

The server stores driver parameters as bytes, and an update of a claim may not change them: neither spaces nor the order
of keys nor escapes. A JSON response is reformatted; a protobuf response contains the stored bytes, so that they can be
sent back unchanged. kube-scheduler is not affected, because it uses protobuf. Claims created by kubectl are not
affected, those of many other clients are.
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
#: Messages about a field that was changed; the second one is that of an allocation since 1.37.
_IMMUTABLE: Final = ("field is immutable", "field cannot be modified once set")
#: Go escapes these characters in JSON strings.
_ESCAPED: Final = ((b"&", b"\\u0026"), (b"<", b"\\u003c"), (b">", b"\\u003e"))


def encoded(value: Any) -> bytes:
    """JSON in Go's format: sorted keys, no spaces.

    Other clients can then repeat it: a driver's apply makes the server write the object again.

    >>> encoded({"b": "x && y", "a": 1})
    b'{"a":1,"b":"x \\\\u0026\\\\u0026 y"}'
    """
    text = msgspec.json.encode(value, order="deterministic")
    for character, escape in _ESCAPED:
        text = text.replace(character, escape)
    return text


def may_be_of_bytes(error: StatusError) -> bool:
    """Whether an update may have been rejected because it reformatted opaque bytes."""
    return error.code == 422 and any(text in str(error) for text in _IMMUTABLE)


def as_stored(tree: Any, stored: bytes) -> bytes:
    """Encode a tree as JSON with the exact bytes of JSON objects in ``stored``, the same object in protobuf.

    >>> as_stored({"parameters": {"a": 1}}, b'some bytes, { "a": 1 }, and more')
    b'{"parameters":{ "a": 1 }}'
    """
    texts: dict[bytes, bytes] = {}
    for text in _texts(stored):
        with suppress(ValueError):  # not a JSON object of the tree
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
    """Find JSON objects within other bytes."""
    text, at = data.decode("latin-1"), 0  # one character for each byte
    while (at := text.find("{", at)) >= 0:
        try:
            _, end = _DECODER.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        yield data[at:end]
        at = end
