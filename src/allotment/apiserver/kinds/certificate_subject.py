"""The subject of a certificate request: reads the part of PKCS #10 (RFC 2986) that admission decides on."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE REQUEST-----(.*?)-----END CERTIFICATE REQUEST-----", re.DOTALL)
_SEQUENCE: Final = 0x30
#: The encodings of strings by their tags (T61String, UniversalString, BMPString); others are read as UTF-8.
_ENCODINGS: Final = {0x14: "latin-1", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
#: Attribute types of X.520 in DER.
_COMMON_NAME: Final = b"\x55\x04\x03"
_ORGANIZATION: Final = b"\x55\x04\x0a"


class Subject(NamedTuple):
    """The attributes of a subject that name a user and the user's groups."""

    common_name: str
    organizations: Sequence[str]


def subject_of(request: str) -> Subject | None:
    """The subject of ``spec.request`` (base64 of PEM); None if it cannot be read."""
    try:
        pem = _PEM.search(base64.b64decode(request, validate=True))
        if pem is None:
            return None
        lines = [line for line in pem[1].split(b"\n") if b":" not in line]  # without the headers that PEM may have
        content = next(_elements(base64.b64decode(b"".join(b"".join(lines).split()), validate=True)))[1]
        info = next(_elements(content))[1]
        subject = next(element for element in _elements(info) if element[0] == _SEQUENCE)[1]
        names: dict[bytes, list[str]] = {}
        for _, attributes in _elements(subject):
            for _, attribute in _elements(attributes):
                (_, attribute_type), (tag, value) = _elements(attribute)
                names.setdefault(attribute_type, []).append(value.decode(_ENCODINGS.get(tag, "utf-8")))
    except (ValueError, IndexError, StopIteration, binascii.Error):
        return None
    # As in Go, the last of several common names counts.
    return Subject(names.get(_COMMON_NAME, [""])[-1], names.get(_ORGANIZATION, []))


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of the DER elements in a sequence. Raises ValueError if the data ends too early."""
    position = 0
    while position < len(data):
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[position : position + size])
            position += size
        content = data[position : position + length]
        if len(content) != length:
            raise ValueError("truncated element")
        yield tag, content
        position += length
