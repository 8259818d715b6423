"""Which parameters win for a device, and their strict reading.

Parameters come with the class and with the claim; the claim's count more, and later ones more than earlier ones. An
entry is for the requests that it names, or for all. One claim can mix kinds of devices (whole GPUs and MIG): parameters
for all requests pass over devices that they are not for, while parameters that name a request must suit its device.

They are opaque to Kubernetes, so on a cluster this is the first place that looks into them. What is wrong here stays
wrong however often it is tried, so a refusal is permanent unless the driver says otherwise, and tells all that is
needed to correct it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from allotment.drivers.driver import ClaimError
from allotment.model.resource import DeviceAllocationConfiguration
from allotment.vocabulary.parameters import strict_decoding

Configs = Mapping[tuple[str, str], type]


class DriverParameters(Protocol):
    """The part of a driver that knows its parameters."""

    @property
    def name(self) -> str:
        """The driver's name."""
        ...

    @property
    def configs(self) -> Configs:
        """Types by (apiVersion, kind)."""
        ...

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether parameters are for that kind of device."""
        ...

    def validate(self, config: Any) -> None:
        """Check parameters beyond their types. Raises Refused."""
        ...


class ParameterEntry(NamedTuple):
    """Parameters of one entry, read. ``place`` says in messages where it stands."""

    location: str
    requests: tuple[str, ...]
    kind: str
    config: Any


def read(driver: DriverParameters, entries: Iterable[DeviceAllocationConfiguration]) -> tuple[ParameterEntry, ...]:
    """The entries for a driver, weakest first, all of them read and validated. Raises Refused."""
    found = []
    for index, entry in enumerate(entries):
        if entry.opaque is None:
            raise ClaimError(f"config[{index}]: wanted opaque parameters, found another sort of them", permanent=True)
        if entry.opaque.driver != driver.name:
            continue
        origin = "of the device class" if entry.source == "FromClass" else "of the claim"
        place = f"config[{index}] ({origin})"
        try:
            config = decode(entry.opaque.parameters, driver.configs)
            driver.validate(config)
        except ClaimError as error:
            raise ClaimError(f"{place}: {error}", permanent=error.permanent is not False) from None
        found.append(
            (
                entry.source != "FromClass",
                ParameterEntry(place, entry.requests, entry.opaque.parameters["kind"], config),
            )
        )
    # Class before claim, whatever the order in the list (KEP-4381); each in its own order.
    return tuple(entry for _, entry in sorted(found, key=lambda pair: pair[0]))


def effective_config(driver: DriverParameters, entries: Sequence[ParameterEntry], request: str, device: str) -> Any:
    """The parameters for a device that a request was given; None where there are none. Raises Refused.

    ``request``: as the allocation has it, ``main`` or ``main/sub``; entries may name either.
    """
    names = {request, request.partition("/")[0]}
    for entry in reversed(entries):
        if entry.requests and names.isdisjoint(entry.requests):
            continue
        if driver.config_applies(device, entry.config):
            return entry.config
        if entry.requests:
            raise ClaimError(
                f"{entry.location}: {entry.kind} is not for device {device}, which request {request} was given; "
                f"name only requests for devices that {entry.kind} suits",
                permanent=True,
            )
    return None


def decode(parameters: Any, configs: Configs) -> Any:
    """The value of a driver's parameters. Raises Refused with the path, what was found and what is wanted.

    >>> import msgspec
    >>> class Mode(msgspec.Struct):
    ...     speed: int = 1
    >>> decode({"apiVersion": "v1", "kind": "Mode", "sped": 2}, {("v1", "Mode"): Mode})
    Traceback (most recent call last):
    ...
    allotment.drivers.driver.Refused: sped: Mode has no such field; did you mean "speed"?
    """
    try:
        return strict_decoding.read(parameters, configs)
    except strict_decoding.Misread as error:
        raise ClaimError(str(error), permanent=True) from None
