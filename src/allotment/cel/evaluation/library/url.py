"""``kubernetes.URL``: validation and parsing of URLs as in Go's ``net/url``.

A text is a valid URL if Go's ``ParseRequestURI`` accepts it: an absolute URI or an absolute path. It is then parsed by
the more lenient ``Parse``, which supports fragments. As in Go, parsing works on UTF-8 bytes; invalid UTF-8 is
represented by surrogate escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final

from allotment.cel.evaluation.library.network import AddressError, parse_address
from allotment.cel.evaluation.values import CelError, ListValue, MapValue, Value
from allotment.model.quoting import quote

_ALPHANUMERIC: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
# Bytes that Go does not escape in each part of a URL (encoding table of Go 1.26 and later).
_IN_PATH: Final = frozenset(_ALPHANUMERIC + b"$&+,-./:;=@_~")
_IN_FRAGMENT: Final = frozenset(_ALPHANUMERIC + b"!$&()*+,-./:;=?@_~")
_IN_HOST: Final = frozenset(_ALPHANUMERIC + b"!\"$&'()*+,-.:;<=>[]_~")
_IN_USER: Final = frozenset(_ALPHANUMERIC + b"$&+,-.;=_~")
_ALSO_VALID: Final = frozenset(b"!$&'()*+,;=:@[]%")
_USERINFO: Final = re.compile(rb"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SCHEME: Final = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT: Final = re.compile(rb"(?::[0-9]*)?")
_ESCAPE: Final = re.compile(rb"%[0-9A-Fa-f]{2}")
_MAX_PARAMETERS: Final = 10_000


class _InvalidURL(Exception):
    pass


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


class URL:
    """A parsed URL; the parts are unescaped bytes, except ``opaque``, ``query`` and those whose name starts with
    ``raw_``."""

    __slots__ = (
        "force_query", "fragment", "host", "omit_host", "opaque", "path", "query", "raw_fragment", "raw_path", "scheme",
        "user",
    )  # fmt: skip
    cel_type: ClassVar = "kubernetes.URL"
    go_type: ClassVar = "cel.URL"

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.path = self.raw_path = self.query = b""
        self.fragment = self.raw_fragment = b""
        self.user: tuple[bytes, bytes | None] | None = None
        self.force_query = self.omit_host = False

    def escaped_path(self) -> bytes:
        """The original path if its escaping is valid, else the path as Go escapes it."""
        return _escaped(self.path, self.raw_path, _IN_PATH)

    def __str__(self) -> str:
        parts: list[bytes] = []
        if self.scheme:
            parts.append(self.scheme + b":")
        if self.opaque:
            parts.append(self.opaque)
        else:
            self._print_hierarchy(parts)
        if self.force_query or self.query:
            parts.append(b"?" + self.query)
        if self.fragment:
            parts.append(b"#" + _escaped(self.fragment, self.raw_fragment, _IN_FRAGMENT))
        return _text(b"".join(parts))

    def _print_hierarchy(self, parts: list[bytes]) -> None:
        named = bool(self.host) or self.user is not None
        if (self.scheme or named) and not (self.omit_host and not named):
            if named or self.path:
                parts.append(b"//")
            if self.user is not None:
                name, password = self.user
                parts.append(_escape(name, _IN_USER))
                if password is not None:
                    parts.append(b":" + _escape(password, _IN_USER))
                parts.append(b"@")
            parts.append(_escape(self.host, _IN_HOST))
        path = self.escaped_path()
        if path and path[:1] != b"/" and self.host:
            parts.append(b"/")
        if not any(parts) and b":" in path.partition(b"/")[0]:
            parts.append(b"./")
        parts.append(path)

    def host_and_port(self) -> tuple[bytes, bytes]:
        """The host without brackets, and the port."""
        host, port = self.host, b""
        colon = host.rfind(b":")
        if colon >= 0 and _PORT.fullmatch(host[colon:]):
            host, port = host[:colon], host[colon + 1 :]
        if host[:1] == b"[" and host[-1:] == b"]":
            host = host[1:-1]
        return host, port

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


# --- escaping ----------------------------------------------------------------------------------------------------


def _escape(raw: bytes, unescaped: frozenset[int]) -> bytes:
    if unescaped.issuperset(raw):
        return raw
    return b"".join(bytes((c,)) if c in unescaped else b"%%%02X" % c for c in raw)


def _escaped(plain: bytes, raw: bytes, unescaped: frozenset[int]) -> bytes:
    if raw and all(c in unescaped or c in _ALSO_VALID for c in raw) and _decode(raw) == plain:
        return raw
    return plain if plain == b"*" else _escape(plain, unescaped)


def _decode(raw: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes((int(found.group()[1:], 16),)), raw)


def _unescape(raw: bytes, host: bool = False, zone: bool = False) -> bytes:
    """Decodes percent escapes. Hosts can escape only non-ASCII bytes, zones only spaces and bytes valid in hosts."""
    at = 0
    while at < len(raw):
        character = raw[at]
        if character == 0x25:
            escape = raw[at : at + 3]
            if not _ESCAPE.fullmatch(escape):
                raise _InvalidURL(f"invalid URL escape {quote(_text(escape))}")
            value = int(escape[1:], 16)
            if host and value < 0x80 and escape != b"%25":
                raise _InvalidURL(f"invalid URL escape {quote(_text(escape))}")
            if zone and escape != b"%25" and value != 0x20 and value not in _IN_HOST:
                raise _InvalidURL(f"invalid URL escape {quote(_text(escape))}")
            at += 3
            continue
        if (host or zone) and character < 0x80 and character not in _IN_HOST:
            raise _InvalidURL(f"invalid character {quote(chr(character))} in host name")
        at += 1
    return _decode(raw)


# --- parsing -----------------------------------------------------------------------------------------------------


def _parse(raw: bytes, request: bool) -> URL:
    if any(c < 0x20 or c == 0x7F for c in raw):
        raise _InvalidURL("net/url: invalid control character in URL")
    if request and not raw:
        raise _InvalidURL("empty url")
    url = URL()
    if raw == b"*":
        url.path = raw
        return url
    if raw[:1] == b":":
        raise _InvalidURL("missing protocol scheme")
    scheme = _SCHEME.match(raw)
    rest = raw
    if scheme is not None:
        url.scheme = scheme.group(1).lower()
        rest = raw[scheme.end() :]
    if rest.endswith(b"?") and rest.count(b"?") == 1:
        url.force_query = True
        rest = rest[:-1]
    else:
        rest, _, url.query = rest.partition(b"?")
    if rest[:1] != b"/":
        if url.scheme:
            url.opaque = rest
            return url
        if request:
            raise _InvalidURL("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise _InvalidURL("first path segment in URL cannot contain colon")
    if rest.startswith(b"//") and (url.scheme or (not request and not rest.startswith(b"///"))):
        authority, slash, path = rest[2:].partition(b"/")
        _parse_authority(url, authority)
        rest = slash + path
    elif url.scheme and rest[:1] == b"/":
        url.omit_host = True
    url.path = _unescape(rest)
    if _escape(url.path, _IN_PATH) != rest:
        url.raw_path = rest
    return url


def _parse_authority(url: URL, authority: bytes) -> None:
    userinfo, at, host = authority.rpartition(b"@")
    url.host = _parse_host(url.scheme, host)
    if not at:
        return
    if not _USERINFO.fullmatch(userinfo):
        raise _InvalidURL("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(b":")
    unescaped = _unescape(name)
    url.user = (unescaped, _unescape(password) if colon else None)


def _parse_host(scheme: bytes, host: bytes) -> bytes:
    opening = host.rfind(b"[")
    if opening > 0:
        raise _InvalidURL("invalid IP-literal")
    if opening == 0:
        return _parse_bracketed(host)
    colon = host.find(b":")
    if colon >= 0:
        # Lists of hosts with ports are accepted for schemes other than http and https.
        if scheme not in (b"http", b"https"):
            colon = host.rfind(b":")
        _check_port(host[colon:])
    return _unescape(host, host=True)


def _check_port(port: bytes) -> None:
    if not _PORT.fullmatch(port):
        raise _InvalidURL(f"invalid port {quote(_text(port))} after host")


def _parse_bracketed(host: bytes) -> bytes:
    closing = host.rfind(b"]")
    if closing < 0:
        raise _InvalidURL("missing ']' in host")
    port = host[closing + 1 :]
    _check_port(port)
    name = host[1:closing]
    zone = name.find(b"%25")
    if zone >= 0:
        name = _unescape(name[:zone], host=True) + _unescape(name[zone:], zone=True)
    else:
        name = _unescape(name, host=True)
    try:
        address, _ = parse_address(_text(name))
    except AddressError as error:
        raise _InvalidURL(f"invalid host: {error}") from None
    if not address.v6:
        raise _InvalidURL("invalid IP-literal")
    return b"[" + name + b"]" + port


def request_uri_error(text: str) -> str | None:
    """The error text of Go's ``ParseRequestURI``, None for a valid URL."""
    try:
        _parse(_bytes(text), True)
    except _InvalidURL as problem:
        return f"parse {quote(text)}: {problem}"
    return None


def url(text: str) -> URL:
    """Parses a URL. Raises CelError."""
    wrong = "URL parse error during conversion from string: "
    problem = request_uri_error(text)
    if problem is not None:
        raise CelError(wrong + problem)
    raw, _, fragment = _bytes(text).partition(b"#")
    try:
        parsed = _parse(raw, False)
    except _InvalidURL as failure:
        raise CelError(f"{wrong}parse {quote(_text(raw))}: {failure}") from None
    try:
        parsed.fragment = _unescape(fragment)
    except _InvalidURL as failure:
        raise CelError(f"{wrong}parse {quote(text)}: {failure}") from None
    if _escape(parsed.fragment, _IN_FRAGMENT) != fragment:
        parsed.raw_fragment = fragment
    return parsed


def _query(parsed: URL) -> MapValue:
    values: dict[str, list[Value]] = {}
    if parsed.query.count(b"&") < _MAX_PARAMETERS:
        for parameter in parsed.query.split(b"&"):
            if not parameter or b";" in parameter:
                continue
            key, _, value = parameter.partition(b"=")
            try:
                name = _text(_unescape(key.replace(b"+", b" ")))
                content = _text(_unescape(value.replace(b"+", b" ")))
            except _InvalidURL:
                continue
            values.setdefault(name, []).append(content)
    return MapValue({name: (name, ListValue(items)) for name, items in values.items()})


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "string_to_url": url,
    "is_url_string": lambda text: request_uri_error(text) is None,
    "url_get_scheme": lambda parsed: _text(parsed.scheme),
    "url_get_host": lambda parsed: _text(parsed.host),
    "url_get_hostname": lambda parsed: _text(parsed.host_and_port()[0]),
    "url_get_port": lambda parsed: _text(parsed.host_and_port()[1]),
    "url_get_escaped_path": lambda parsed: _text(parsed.escaped_path()),
    "url_get_query": _query,
}
