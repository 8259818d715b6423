"""Checks of string formats in OpenAPI schemas. Formats that Kubernetes does not know are not checked."""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from allotment.model.times import TimeError, canonical
from allotment.model.validation.names import label_problems, subdomain_problems


def format_check(name: str) -> Callable[[str], bool] | None:
    """The check for a format; None for unknown formats. Dashes in format names are ignored."""
    return _FORMATS.get(name.replace("-", ""))


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _date_time(text: str) -> bool:
    try:
        canonical(text.upper() if text[-1:] == "z" else text)
    except TimeError:
        return False
    return True


def _ip_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text.partition("%")[0]).version == version and "%" not in text
        except ValueError:
            return False

    return check


def _cidr(text: str) -> bool:
    address, slash, prefix = text.partition("/")
    try:
        ipaddress.ip_network(text, strict=False)
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return bool(slash) and prefix.isascii() and prefix.isdigit()


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme or text.startswith("/")) and not re.search(r"[\x00-\x20\x7f]", text)


def _base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=bool(text))
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True


def _rgb(text: str) -> bool:
    match = re.fullmatch(r"rgb\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)", text)
    return match is not None and all(int(part) < 256 for part in match.groups())


_LABEL: Final = r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DURATION: Final = (
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*"
    r"|0|[0-9]+\s*(nanosecond|microsecond|millisecond|second|sec|minute|min|hour|day|week|ns|us|ms|s|m|h|d|w)s?"
)

_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": _base64,
    "cidr": _cidr,
    "date": _date,
    "datetime": _date_time,
    "duration": _matches(_DURATION),
    "email": _matches(r"[^@\s]+@[^@\s]+"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": lambda text: len(text) <= 255 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None,
    "ipv4": _ip_address(4),
    "ipv6": _ip_address(6),
    "k8slongname": lambda text: not subdomain_problems(text),
    "k8sshortname": lambda text: not label_problems(text),
    "mac": _matches("([0-9a-fA-F]{2}([:-]))([0-9a-fA-F]{2}\\2){4}[0-9a-fA-F]{2}|([0-9a-fA-F]{4}\\.){2}[0-9a-fA-F]{4}"),
    "rgbcolor": _rgb,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _uri,
    **{
        f"uuid{version}": _matches(
            f"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version or '[0-9a-f]'}[0-9a-f]{{3}}-?"
            f"{'[89ab]' if version in ('4', '5') else '[0-9a-f]'}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
        )
        for version in ("", "3", "4", "5")
    },
}
