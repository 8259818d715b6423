"""The distance between a value that a selector names and a published one: product names token by token, amounts by
their ratio, and the unit that an author meant.

A product name is a list of tokens: ``NVIDIA A100-SXM4-80GB`` is the brand ``nvidia``, the model ``a100``, the form
``sxm4`` and the amount 80 GB. A token that was written but is not in the published name weighs most, because the author
meant it; a token that only the published name has weighs little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from math import log2
from typing import Final, NamedTuple

from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

_PREFIXES: Final = {"m": 2, "g": 3, "t": 4}
#: An amount (80GB, 80GiB, 80G), a model or form (A100, SXM4, L40S), a word, a number or a MIG profile's slices (3g).
_TOKEN: Final = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[mgt])(?P<binary>i?)b?(?![a-z0-9])|[a-z]+[0-9]*[a-z]*|[0-9]+[a-z]*"
)
_GB: Final = re.compile(r"(?<![a-z0-9.])([0-9]+)[ _-]?gb(?![a-z0-9])", re.IGNORECASE)
_NUMBER: Final = re.compile(r"([0-9]+)[a-z]{0,3}")
_GIBIBYTES: Final = re.compile(r"([0-9]+)Gi")
#: The memory of GPUs by their data sheets, in GB.
CARD_SIZES: Final = frozenset(
    {6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 270, 288}
)

#: Words that name a vendor or a brand: nearly every product has one, and authors leave it out.
_BRANDS: Final = frozenset({"nvidia", "tesla", "quadro", "geforce", "amd", "instinct", "radeon", "intel"})
_BRAND_WEIGHT: Final = 0.02
_EXTRA_WEIGHT: Final = 0.1
#: Costs of a written token that the published name has in another form; 1 is the cost of a missing one.
_ABBREVIATED: Final = 0.1
_OTHER_SERIES: Final = 0.75
_OTHER_NUMBER: Final = 0.5
#: Tokens that cost at most this are taken for the same token, amounts and words: 80GiB for 80GB, smx4 for sxm4.
_SAME_AMOUNT: Final = 0.11
_SAME_WORD: Final = 0.4


class _Token(NamedTuple):
    """A token in lower case: its text, leading letters, the rest, and the bytes of an amount (0 for other tokens)."""

    text: str
    letters: str
    rest: str
    amount: float = 0.0


@lru_cache(maxsize=65_536)
def _tokens(name: str) -> tuple[_Token, ...]:
    found = []
    for match in _TOKEN.finditer(name.lower()):
        text = match[0]
        letters = re.match(r"[a-z]*", text)
        assert letters is not None
        amount = 0.0
        if match["number"]:
            base = 1024.0 if match["binary"] else 1000.0
            amount = float(match["number"]) * base ** _PREFIXES[match["unit"]]
        found.append(_Token(text, letters[0], text[letters.end() :], amount))
    return tuple(found)


@lru_cache(maxsize=65_536)  # the same names are compared for every node
def name_distance(written: str, published: str) -> float:
    """The distance of a published name from a written one; 0 for names that differ only in case and punctuation.

    >>> near = name_distance("A100-80GB", "NVIDIA A100-SXM4-80GB")
    >>> near == name_distance("A100-80GB", "NVIDIA A100 80GB PCIe")
    True
    >>> near < name_distance("A100-80GB", "NVIDIA A100-SXM4-40GB")
    True
    >>> near < name_distance("A100-80GB", "NVIDIA H100 80GB HBM3") < name_distance("A100-80GB", "NVIDIA L4")
    True
    >>> name_distance("nvidia_a100_sxm4_80gb", "NVIDIA A100-SXM4-80GB")
    0.0
    """
    costs = _costs(written, published)
    missing = sum(cost * (_BRAND_WEIGHT if token.text in _BRANDS else 1.0) for token, cost in costs)
    named = {token.text for token in _tokens(written)}
    joined = "".join(token.text for token in _tokens(written))
    extra = [t for t in _tokens(published) if t.text not in named and t.text not in joined]
    more = sum(_BRAND_WEIGHT if token.text in _BRANDS else _EXTRA_WEIGHT for token in extra)
    return round(missing + more, 6)


@lru_cache(maxsize=65_536)
def names_same(written: str, published: str) -> bool:
    """Whether every token that was written occurs in the published name, apart from misspelled letters.

    >>> names_same("A100-80GB", "NVIDIA A100-SXM4-80GB"), names_same("A100-80GB", "NVIDIA A100-SXM4-40GB")
    (True, False)
    >>> names_same("A100-SMX4-80GB", "NVIDIA A100-SXM4-80GB"), names_same("H100", "NVIDIA A100-SXM4-80GB")
    (True, False)
    >>> names_same("A100-SXM4-80B", "NVIDIA A100-SXM4-80GB"), names_same("A100-SXM4-80B", "NVIDIA A100-SXM4-40GB")
    (True, False)
    >>> names_same("RTX6000", "Quadro RTX 6000"), names_same("gpu", "vgpu"), names_same("A10", "NVIDIA A10G")
    (True, False, False)
    """
    costs = [(token, cost) for token, cost in _costs(written, published) if token.text not in _BRANDS]
    return bool(costs) and all(cost <= (_SAME_AMOUNT if token.amount else _SAME_WORD) for token, cost in costs)


def _costs(written: str, published: str) -> list[tuple[_Token, float]]:
    """The written tokens with their costs: 0 for one that the published name has, 1 for a missing one."""
    own, other = _tokens(written), _tokens(published)
    whole = {"".join(t.text for t in other[i:j]) for i in range(len(other)) for j in range(i + 1, len(other) + 1)}
    found = []
    for index, token in enumerate(own):
        around = (own[max(index - 1, 0) : index + 1], own[index : index + 2])
        if whole & {token.text, *("".join(t.text for t in pair) for pair in around)}:
            found.append((token, 0.0))
        else:
            found.append((token, min((_cost(token, candidate) for candidate in other), default=1.0)))
    return found


def _cost(written: _Token, published: _Token) -> float:
    """The cost of a written token that has another form in the published name, from 0 to 1."""
    if written.amount and published.amount:
        return min(1.0, amount_distance(written.amount, published.amount))
    if written.amount or published.amount:  # 80B for 80GB: the unit is misspelled, or left out
        one, other = _NUMBER.fullmatch(written.text), _NUMBER.fullmatch(published.text)
        return _ABBREVIATED if one is not None and other is not None and one[1] == other[1] else 1.0
    if written.rest == published.rest:
        similar = SequenceMatcher(None, written.letters, published.letters, autojunk=False).ratio()
        shorter = min(len(written.letters), len(published.letters))
        if (similar > 0.6 and shorter >= 3) if written.rest else (similar >= 0.75 and shorter >= 4):
            return 1.0 - similar
        return _OTHER_SERIES if written.rest else 1.0
    if written.letters == published.letters and written.letters:
        if not written.rest:
            return _ABBREVIATED
        numbers = [int(digits[0]) for rest in (written.rest, published.rest) if (digits := re.match("[0-9]+", rest))]
        ratio = amount_distance(numbers[0], numbers[1]) if len(numbers) == 2 else 1.0
        return _OTHER_NUMBER + min(1.0, ratio) / 4
    return 1.0


def amount_distance(wanted: float, actual: float) -> float:
    """The distance of two amounts: the logarithm (base 2) of their ratio; that from or to 0 is that of 64 bits.

    >>> amount_distance(80, 40), amount_distance(40, 80), amount_distance(0, 1)
    (1.0, 1.0, 64.0)
    """
    if wanted == actual:
        return 0.0
    if wanted <= 0 or actual <= 0:
        return 64.0
    return abs(log2(actual / wanted))


def value_distance(wanted: object, actual: object) -> float:
    """The distance of a published value from the value that a selector names; 1 for values that cannot be compared.

    >>> value_distance(Quantity.parse("80Gi"), Quantity.parse("40Gi")), value_distance("A100", "NVIDIA A100")
    (1.0, 0.02)
    >>> value_distance(Semver.parse("550.0.0"), Semver.parse("551.0.0")) < value_distance(True, False)
    True
    """
    if isinstance(wanted, tuple):
        return min((value_distance(value, actual) for value in wanted), default=1.0)
    if isinstance(wanted, str) and isinstance(actual, str):
        return name_distance(wanted, actual)
    if isinstance(wanted, Quantity) and isinstance(actual, Quantity):
        return amount_distance(wanted.nano, actual.nano)
    if isinstance(wanted, Semver) and isinstance(actual, Semver):
        minor = amount_distance(wanted.minor + 1, actual.minor + 1)
        return amount_distance(wanted.major + 1, actual.major + 1) + minor / 100
    if isinstance(wanted, int | float) and isinstance(actual, int | float) and not isinstance(wanted, bool):
        return amount_distance(wanted, actual)
    return 0.0 if wanted == actual else 1.0


def named_memory(name: str) -> int:
    """The memory in bytes that a product name states; 0 if it states none.

    >>> named_memory("NVIDIA A100-SXM4-80GB"), named_memory("NVIDIA H100 PCIe"), named_memory("1g.10gb+me")
    (80000000000, 0, 0)
    """
    found = _GB.search(name)
    return int(found[1]) * 10**9 if found else 0


class SoldAs(NamedTuple):
    """The intended amount, its number of GB, and the published amounts of the devices that are sold with it."""

    amount: Quantity
    gigabytes: str
    published: str

    @property
    def reason(self) -> str:
        """The reason for the decimal amount, as the end of a sentence."""
        return f"cards sold as {self.gigabytes} GB have {self.published}"


def sold_as(wanted: Quantity, amounts: Iterable[Quantity]) -> SoldAs | None:
    """The decimal amount that was intended by whole Gi of memory, if devices are sold by this number of GB.

    A card of 24 GB has at least 24·10⁹ bytes, but less than 24Gi. None if no such amount is among ``amounts``.

    >>> sold_as(Quantity.parse("24Gi"), [Quantity.parse("23034Mi"), Quantity.parse("15Gi")])
    SoldAs(amount=Quantity('24G'), gigabytes='24', published='23034Mi')
    >>> sold_as(Quantity.parse("81Gi"), [Quantity.parse("80Gi")])
    """
    written = _GIBIBYTES.fullmatch(str(wanted))
    if written is None or int(written[1]) not in CARD_SIZES:
        return None
    intended = Quantity.parse(f"{written[1]}G")
    included = [amount for amount in amounts if intended <= amount < wanted]
    if not included:
        return None
    least, most = min(included), max(included)
    return SoldAs(intended, written[1], f"{least}" if least == most else f"{least} to {most}")
