from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.evaluation.library import network
from allotment.cel.evaluation.library.network import AddressError, parse_address
from allotment.cel.evaluation.values import CelError


@pytest.mark.parametrize(
    ("text", "error"),
    # Recorded from Go's netip.ParseAddr.
    [
        ("", "unable to parse IP"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2..4", 'IPv4 field must have at least one digit (at ".4")'),
        ("a.b", 'unexpected character (at "a.b")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3", "address string too short"),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("::1%", "zone must be a non-empty string"),
        ("1.2.3.4%eth0", 'unexpected character (at "%eth0")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("1:", 'colon must be followed by more characters (at ":")'),
        (
            "1:2:3:4:5:6:7:1.2.3.4",
            'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
        ),
        ("::1 ", 'unexpected character, want colon (at " ")'),
    ],
)
def test_address_errors_match_go(text: str, error: str) -> None:
    with pytest.raises(AddressError) as failed:
        parse_address(text)
    assert str(failed.value) == f'ParseAddr("{text}"): {error}'


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_addresses_round_trip_and_format_as_in_python(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    parsed, zone = parse_address(str(address))
    assert (parsed.number, parsed.v6, zone) == (int(address), address.version == 6, "")
    if address.version == 4 or not ipaddress.IPv6Address(int(address)).ipv4_mapped:
        assert str(parsed) == str(address)


@given(st.ip_addresses(v=6), st.integers(0, 128), st.ip_addresses(v=6))
def test_containment_agrees_with_python(base: ipaddress.IPv6Address, bits: int, other: ipaddress.IPv6Address) -> None:
    net = network.CIDR(network.IP(int(base), True), bits)
    expected = ipaddress.ip_network(f"{base}/{bits}", strict=False)
    assert network.contains_ip(net, network.IP(int(other), True)) == (other in expected)
    assert network.contains_ip(net, network.IP(int(base), True))
    assert network.masked(net).ip.number == int(expected.network_address)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3.4/33", "prefix length out of range"),
        ("1.2.3.4/024", 'bad bits after slash: "024"'),
        ("fe80::1%eth0/64", "IPv6 zones cannot be present in a prefix"),
        ("1.2.3/8", 'ParseAddr("1.2.3"): IPv4 address too short'),
    ],
)
def test_invalid_networks(text: str, error: str) -> None:
    with pytest.raises(CelError) as failed:
        network.cidr(text)
    twice = "network address parse error during conversion from string: " * 2
    assert str(failed.value) == f'{twice}netip.ParsePrefix("{text}"): {error}'


def test_mapped_addresses_and_zones_are_rejected() -> None:
    with pytest.raises(CelError, match="IPv4-mapped IPv6 address"):
        network.ip("::ffff:1.2.3.4")
    with pytest.raises(CelError, match="with zone value is not allowed"):
        network.ip("fe80::1%eth0")
