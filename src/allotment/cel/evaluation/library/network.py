"""``net.IP`` and ``net.CIDR`` with Go's parsing rules and error texts.

Zones, IPv4-mapped IPv6 addresses and octets with leading zeros are rejected. A CIDR keeps the host bits of its address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final

from allotment.cel.evaluation.equality import NO_SUCH_OVERLOAD
from allotment.cel.evaluation.values import CelError, Value
from allotment.model.quoting import quote

_HEX: Final = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_BITS: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_CIDR_ERROR: Final = "network address parse error during conversion from string: "


class AddressError(ValueError):
    """Raised for an invalid address; the text is Go's ``ParseAddr(…): …``."""

    def __init__(self, text: str, problem: str, at: str | None = None) -> None:
        where = "" if at is None else f" (at {quote(at)})"
        super().__init__(f"ParseAddr({quote(text)}): {problem}{where}")


class IP:
    """An IP address: its number, and whether it is IPv6."""

    __slots__ = ("cel_size", "number", "v6")
    cel_type: ClassVar = "net.IP"
    go_type: ClassVar = "cel.IP"

    def __init__(self, number: int, v6: bool) -> None:
        self.number = number
        self.v6 = v6
        self.cel_size = 16 if v6 else 4

    def __str__(self) -> str:
        return _print_v6(self.number) if self.v6 else _print_v4(self.number)

    def go_key(self) -> object:
        """The map key of the address."""
        return self.number, self.v6

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.number == other.number and self.v6 == other.v6

    def __hash__(self) -> int:
        return hash((self.number, self.v6))


class CIDR:
    """A network: an address and its prefix length in bits."""

    __slots__ = ("bits", "cel_size", "ip")
    cel_type: ClassVar = "net.CIDR"
    go_type: ClassVar = "cel.CIDR"

    def __init__(self, ip: IP, bits: int) -> None:
        self.ip = ip
        self.bits = bits
        self.cel_size = -(-bits // 8)

    def __str__(self) -> str:
        return f"{self.ip}/{self.bits}"

    def go_key(self) -> object:
        """The map key of the network."""
        return self.ip.go_key(), self.bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and self.ip == other.ip and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((self.ip, self.bits))

    def network(self, bits: int) -> int:
        """The first ``bits`` bits of the address."""
        return self.ip.number >> ((128 if self.ip.v6 else 32) - bits)


# --- text --------------------------------------------------------------------------------------------------------


def _print_v4(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _print_v6(number: int) -> str:
    groups = [number >> shift & 0xFFFF for shift in range(112, -1, -16)]
    longest_start = longest_length = start = 0
    for i in range(9):
        if i < 8 and not groups[i]:
            continue
        if i - start > longest_length:
            longest_start, longest_length = start, i - start
        start = i + 1
    texts = [format(group, "x") for group in groups]
    if longest_length < 2:
        return ":".join(texts)
    return ":".join(texts[:longest_start]) + "::" + ":".join(texts[longest_start + longest_length :])


def parse_address(text: str) -> tuple[IP, str]:
    """Parses an address and its zone as Go's ``netip.ParseAddr``. Raises AddressError."""
    for character in text:
        if character == ".":
            return IP(_parse_v4(text, text), False), ""
        if character == ":":
            return _parse_v6(text)
        if character == "%":
            raise AddressError(text, "missing IPv6 address")
    raise AddressError(text, "unable to parse IP")


def _parse_v4(whole: str, text: str) -> int:
    fields: list[int] = []
    value = digits = 0
    for i, character in enumerate(text):
        if "0" <= character <= "9":
            if digits == 1 and value == 0:
                raise AddressError(whole, "IPv4 field has octet with leading zero")
            value = value * 10 + int(character)
            digits += 1
            if value > 255:
                raise AddressError(whole, "IPv4 field has value >255")
        elif character == ".":
            if i == 0 or i == len(text) - 1 or text[i - 1] == ".":
                raise AddressError(whole, "IPv4 field must have at least one digit", text[i:])
            if len(fields) == 3:
                raise AddressError(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise AddressError(whole, "unexpected character", text[i:])
    if len(fields) < 3:
        raise AddressError(whole, "IPv4 address too short")
    fields.append(value)
    return fields[0] << 24 | fields[1] << 16 | fields[2] << 8 | fields[3]


def _parse_v6(whole: str) -> tuple[IP, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise AddressError(whole, "zone must be a non-empty string")
    octets: list[int] = []
    ellipsis = -1
    if text.startswith("::"):
        ellipsis = 0
        text = text[2:]
    while len(octets) < 16 and (text or ellipsis < 0 or octets):
        if not text:
            break
        digits = _HEX.match(text)
        length = digits.end() if digits else 0
        if length > 4:
            raise AddressError(whole, "each group must have 4 or less digits", text)
        if not length:
            raise AddressError(whole, "each colon-separated field must have at least one digit", text)
        if text[length : length + 1] == ".":
            if ellipsis < 0 and len(octets) != 12:
                raise AddressError(whole, "embedded IPv4 address must replace the final 2 fields of the address", text)
            if len(octets) + 4 > 16:
                raise AddressError(whole, "too many hex fields to fit an embedded IPv4 at the end of the address", text)
            octets.extend(_parse_v4(whole, text).to_bytes(4, "big"))
            text = ""
            break
        group = int(text[:length], 16)
        octets += (group >> 8, group & 255)
        text = text[length:]
        if not text:
            break
        if text[0] != ":":
            raise AddressError(whole, "unexpected character, want colon", text)
        if len(text) == 1:
            raise AddressError(whole, "colon must be followed by more characters", text)
        text = text[1:]
        if text[0] == ":":
            if ellipsis >= 0:
                raise AddressError(whole, "multiple :: in address", text)
            ellipsis = len(octets)
            text = text[1:]
    if text:
        raise AddressError(whole, "trailing garbage after address", text)
    if len(octets) < 16:
        if ellipsis < 0:
            raise AddressError(whole, "address string too short")
        octets[ellipsis:ellipsis] = [0] * (16 - len(octets))
    elif ellipsis >= 0:
        raise AddressError(whole, "the :: must expand to at least one field of zeros")
    return IP(int.from_bytes(bytes(octets), "big"), True), zone


def _is_mapped(ip: IP) -> bool:
    return ip.v6 and ip.number >> 32 == 0xFFFF


# --- functions ---------------------------------------------------------------------------------------------------


def ip(text: str) -> IP:
    """Parses an address. Raises CelError."""
    try:
        address, zone = parse_address(text)
    except AddressError as error:
        raise CelError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise CelError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


def cidr(text: str) -> CIDR:
    """Parses a network. Raises CelError."""
    try:
        found = _parse_prefix(text)
    except AddressError as error:
        raise CelError(f"{_CIDR_ERROR}{_CIDR_ERROR}netip.ParsePrefix({quote(text)}): {error}") from None
    if isinstance(found, str):
        raise CelError(f"{_CIDR_ERROR}{_CIDR_ERROR}netip.ParsePrefix({quote(text)}): {found}")
    if _is_mapped(found.ip):
        raise CelError(f"{_CIDR_ERROR}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return found


def _parse_prefix(text: str) -> CIDR | str:
    """Parses a network; returns Go's error text if the prefix is invalid. Raises AddressError."""
    address_text, slash, bits_text = text.rpartition("/")
    if not slash:
        return "no '/'"
    address, zone = parse_address(address_text)
    if zone:
        return "IPv6 zones cannot be present in a prefix"
    if not _BITS.fullmatch(bits_text):
        return f"bad bits after slash: {quote(bits_text)}"
    if len(bits_text) > 3 or int(bits_text) > (128 if address.v6 else 32):
        return "prefix length out of range"
    return CIDR(address, int(bits_text))


def _succeeds(parse: Callable[[str], Value]) -> Callable[[str], bool]:
    def succeeds(text: str) -> bool:
        try:
            parse(text)
        except CelError:
            return False
        return True

    return succeeds


def contains_ip(network: CIDR, address: IP) -> bool:
    """Whether a network contains an address."""
    if network.ip.v6 != address.v6:
        return False
    return network.network(network.bits) == CIDR(address, network.bits).network(network.bits)


def contains_ip_text(network: CIDR, text: str) -> bool:
    """``containsIP`` with a string; an invalid address gives ``no such overload``."""
    try:
        address = ip(text)
    except CelError:
        raise CelError(NO_SUCH_OVERLOAD) from None
    return contains_ip(network, address)


def contains_cidr(network: CIDR, other: CIDR) -> bool:
    """Whether a network contains another one."""
    if network.ip.v6 != other.ip.v6 or network.bits > other.bits:
        return False
    return network.network(network.bits) == other.network(network.bits)


def masked(network: CIDR) -> CIDR:
    """The network with its host bits set to zero."""
    rest = (128 if network.ip.v6 else 32) - network.bits
    return CIDR(IP(network.ip.number >> rest << rest, network.ip.v6), network.bits)


def _is_loopback(address: IP) -> bool:
    return address.number == 1 if address.v6 else address.number >> 24 == 127


def _is_multicast(address: IP) -> bool:
    return address.number >> 120 == 0xFF if address.v6 else address.number >> 28 == 0xE


def _is_link_local_multicast(address: IP) -> bool:
    if address.v6:
        return address.number >> 112 & 0xFF0F == 0xFF02
    return address.number >> 8 == 0xE00000


def _is_link_local_unicast(address: IP) -> bool:
    return address.number >> 118 == 0x3FA if address.v6 else address.number >> 16 == 0xA9FE


def _is_global_unicast(address: IP) -> bool:
    if not address.number or (not address.v6 and address.number == 0xFFFFFFFF):
        return False
    return not (_is_loopback(address) or _is_multicast(address) or _is_link_local_unicast(address))


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "string_to_ip": ip,
    "ip_is_canonical": lambda text: str(ip(text)) == text,
    "is_ip": _succeeds(ip),
    "ip_family": lambda address: 6 if address.v6 else 4,
    "ip_is_unspecified": lambda address: address.number == 0,
    "ip_is_loopback": _is_loopback,
    "ip_is_link_local_multicast": _is_link_local_multicast,
    "ip_is_link_local_unicast": _is_link_local_unicast,
    "ip_is_global_unicast": _is_global_unicast,
    "ip_to_string": str,
    "string_to_cidr": cidr,
    "is_cidr": _succeeds(cidr),
    "cidr_contains_ip_string": contains_ip_text,
    "cidr_contains_ip_ip": contains_ip,
    "cidr_contains_cidr_string": lambda network, text: contains_cidr(network, cidr(text)),
    "cidr_contains_cidr": contains_cidr,
    "cidr_prefix_length": lambda network: network.bits,
    "cidr_masked": masked,
    "cidr_ip": lambda network: network.ip,
    "cidr_to_string": str,
}
