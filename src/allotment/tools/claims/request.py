"""The devices that a user requires, and the errors of requirements that no claim can state."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.errors import InputError
from allotment.fleet.advertised_memory import GIB
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity

Part: TypeAlias = Literal["whole", "mig", "partition"]

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT])(i?)B?|)", re.IGNORECASE)
_FRACTION: Final = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


class ClaimError(InputError):
    """Raised for a request that no claim can state."""


class LackingDevices(ClaimError):
    """Raised for a valid request if the cluster or hardware has no such devices."""


class Memory(NamedTuple):
    """An amount of memory. ``gb``: the advertised size of a card that it may stand for, 0 if it is none.

    ``exact``: the amount as a quantity.
    """

    written: str
    gb: int
    exact: str

    @property
    def text(self) -> str:
        """The amount in messages."""
        return f"{self.gb} GB" if self.gb else self.exact


class Share(NamedTuple):
    """A part of a device. ``amount``: memory as a quantity, or empty; ``fraction``: numerator and denominator.

    Without both, the users of one claim share its devices.
    """

    amount: str = ""
    fraction: tuple[int, int] | None = None

    @property
    def divides(self) -> bool:
        """Whether each claim gets an amount of its own, of a device that several claims share."""
        return bool(self.amount or self.fraction)


class Requirements(NamedTuple):
    """The devices of one claim.

    ``vendor``: empty if it follows from the rest. ``profile``: a MIG or partition profile, or empty for any.
    ``same_root``: all devices are under one PCIe root. ``all_devices``: every matching device of a node.
    """

    gpus: int = 1
    all_devices: bool = False
    vendor: str = ""
    model: str = ""
    memory: Memory | None = None
    part: Part = "whole"
    profile: str = ""
    share: Share | None = None
    same_root: bool = False
    class_name: str = ""
    extended: bool = False

    @property
    def divides(self) -> bool:
        """Whether each claim gets a part of a device that several claims share."""
        return self.share is not None and self.share.divides

    @property
    def is_shared(self) -> bool:
        """Whether several pods share the devices of one claim."""
        return self.share is not None and not self.share.divides


def parse_memory(text: str, argument: str = "memory") -> Memory:
    """Parse an amount of memory, the value of an argument. Raises ClaimError.

    ``80GB``, ``80Gi`` and ``81920Mi`` can all stand for a card of 80 GB; other amounts are exact.

    >>> parse_memory("80GB"), parse_memory("81920Mi").gb, parse_memory("9728Mi")
    (Memory(written='80GB', gb=80, exact='80G'), 80, Memory(written='9728Mi', gb=0, exact='9728Mi'))
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        hint = "for example 80GB or 9728Mi"
        raise ClaimError(f"expected an amount of memory, found {text!r}", hint, argument=argument)
    number, unit, binary = found.groups()
    if not unit:
        raise ClaimError(f"expected a unit after {number}", f"for example {number}GB", argument=argument)
    unit = unit.upper()
    suffix = "k" if unit == "K" and not binary else unit
    exact = Quantity.parse(f"{number}{suffix}{'i' if binary else ''}")
    unit_of_size = GIB if binary else 10**9
    size, rest = divmod(exact.value(), unit_of_size)
    return Memory(text.strip(), 0 if rest else size, str(exact))


def parse_share(text: str) -> Share:
    """Parse a part of a device: an amount of memory, a fraction such as ``1/3``, or empty. Raises ClaimError.

    >>> parse_share("10Gi").amount, parse_share("1/3").fraction, parse_share("").divides
    ('10Gi', (1, 3), False)
    """
    if not text:
        return Share()
    fraction = _FRACTION.fullmatch(text)
    if fraction is None:
        return Share(amount=parse_memory(text, "share").exact)
    part, whole = int(fraction[1]), int(fraction[2])
    if part >= whole:
        raise ClaimError(f"expected less than a whole device, found {text}", "omit it", argument="share")
    return Share(fraction=(part, whole))


def binary_text(amount: int) -> str:
    """Return bytes as a quantity: whole Gi if possible, else Mi rounded down.

    >>> binary_text(80 << 30), binary_text(81559 << 20)
    ('80Gi', '81559Mi')
    """
    return f"{amount // GIB}Gi" if amount % GIB == 0 else f"{amount // MIB}Mi"
