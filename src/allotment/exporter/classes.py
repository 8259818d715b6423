"""The DeviceClasses that select a device, and the class for which a claim has a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from allotment.cel import CompileError, DeviceInput, Selector, compile_selector
from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.identity import DeviceID
from allotment.model.features import Features
from allotment.model.resource import DeviceClass, ResourceClaim

#: The class of a request whose class is unknown.
NO_CLASS: Final = ""


class Classes:
    """The compiled selectors of all classes."""

    def __init__(self, classes: Iterable[DeviceClass], features: Features) -> None:
        self._selectors: dict[str, tuple[Selector, ...]] = {}
        for device_class in classes:
            texts = [selector.cel.expression if selector.cel else "" for selector in device_class.spec.selectors]
            try:
                self._selectors[device_class.metadata.name] = tuple(compile_selector(text, features) for text in texts)
            except CompileError:
                continue  # accepted by a newer API server; it cannot be evaluated here

    def of(self, records: Sequence[DeviceRecord]) -> list[list[str]]:
        """Return the classes of each device; an error of a selector counts as no match."""
        inputs = [DeviceInput(record.id.driver, record.device) for record in records]
        found: list[list[str]] = [[] for _ in inputs]
        for name, selectors in self._selectors.items():
            left = list(range(len(inputs)))
            for selector in selectors:
                answers = selector.match_all([inputs[number] for number in left])
                left = [number for number, answer in zip(left, answers, strict=True) if answer is True]
            for number in left:
                found[number].append(name)
        return found


def class_of(claim: ResourceClaim | None, device: DeviceID | None = None) -> str:
    """Return the class of the request for which a claim has a device, or of its first request."""
    if claim is None or not claim.spec.devices.requests:
        return NO_CLASS
    names: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            names[request.name] = request.exactly.device_class_name
        for sub in request.first_available:
            names[f"{request.name}/{sub.name}"] = sub.device_class_name
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    for result in results:
        if device is None or DeviceID(result.driver, result.pool, result.device) == device:
            return names.get(result.request, NO_CLASS)
    return next(iter(names.values()), NO_CLASS)
