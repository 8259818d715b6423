"""The parameters that apply to a device, from the configuration of an allocation.

Parameters are set in the class and in the claim. The claim's have priority, and of several entries the last one. An
entry applies to the requests that it names, or to all. A claim can have devices of several kinds (whole GPUs and MIG):
parameters for all requests are skipped for devices that they do not apply to; parameters that name a request must apply
to its devices.

Kubernetes does not validate parameters, so the driver is the first to read them. Errors are permanent unless the driver
says otherwise, and their text has everything that is needed to fix them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from allotment.drivers.driver import ClaimError
from allotment.model.resource import DeviceAllocationConfiguration
from allotment.vocabulary.parameters import strict_decoding

Configs = Mapping[tuple[str, str], type]


class DriverParameters(Protocol):
    """The part of a driver that defines its parameters."""

    @property
    def name(self) -> str: ...

    @property
    def configs(self) -> Configs:
        """The types by (apiVersion, kind)."""
        ...

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether parameters apply to this kind of device."""
        ...

    def validate(self, config: Any) -> None:
        """Check parameters beyond their types. Raises ClaimError."""
        ...


class ParameterEntry(NamedTuple):
    """The decoded parameters of an entry, and the location of the entry for messages."""

    location: str
    requests: tuple[str, ...]
    kind: str
    config: Any


def read(driver: DriverParameters, entries: Iterable[DeviceAllocationConfiguration]) -> tuple[ParameterEntry, ...]:
    """Return the decoded and validated entries for a driver, in ascending priority. Raises ClaimError."""
    decoded = []
    for index, entry in enumerate(entries):
        if entry.opaque is None:
            raise ClaimError(f"config[{index}]: expected opaque parameters", permanent=True)
        if entry.opaque.driver != driver.name:
            continue
        origin = "of the device class" if entry.source == "FromClass" else "of the claim"
        location = f"config[{index}] ({origin})"
        try:
            config = decode(entry.opaque.parameters, driver.configs)
            driver.validate(config)
        except ClaimError as error:
            raise ClaimError(f"{location}: {error}", permanent=error.permanent is not False) from None
        decoded.append(
            (
                entry.source != "FromClass",
                ParameterEntry(location, entry.requests, entry.opaque.parameters["kind"], config),
            )
        )
    # Entries from classes come before those from the claim (KEP-4381), otherwise in the order of the list.
    return tuple(entry for _, entry in sorted(decoded, key=lambda pair: pair[0]))


def effective_config(driver: DriverParameters, entries: Sequence[ParameterEntry], request: str, device: str) -> Any:
    """Return the parameters for a device of a request, or None. Raises ClaimError.

    ``request``: as in the allocation, ``main`` or ``main/sub``; entries may name either.
    """
    names = {request, request.partition("/")[0]}
    for entry in reversed(entries):
        if entry.requests and names.isdisjoint(entry.requests):
            continue
        if driver.config_applies(device, entry.config):
            return entry.config
        if entry.requests:
            raise ClaimError(
                f"{entry.location}: {entry.kind} does not apply to device {device} of request {request}; "
                f"in this config, list under requests only the requests that {entry.kind} applies to",
                permanent=True,
            )
    return None


def decode(parameters: Any, configs: Configs) -> Any:
    """Decode a driver's parameters. Raises ClaimError with the path, the value and the expected values.

    >>> import msgspec
    >>> class Mode(msgspec.Struct):
    ...     speed: int = 1
    >>> decode({"apiVersion": "v1", "kind": "Mode", "sped": 2}, {("v1", "Mode"): Mode})
    Traceback (most recent call last):
    ...
    allotment.drivers.driver.ClaimError: sped: unknown field of Mode; did you mean "speed"?
    """
    try:
        return strict_decoding.decode_parameters(parameters, configs)
    except strict_decoding.ParameterError as error:
        raise ClaimError(str(error), permanent=True) from None
