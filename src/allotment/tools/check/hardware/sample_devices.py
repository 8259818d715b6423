"""Devices of all the hardware that is known, as its drivers publish them: what a selector can be held against.

Hardware is no cluster: that no known device fits proves nothing. That one nearly fits, or that a profile is one of
another GPU's, is worth saying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from allotment.cel.device import DeviceInput
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.values import EvaluationError
from allotment.cel.selector import Selector, compile_selector
from allotment.fleet import CLASSES, Accelerator, accelerators, hardware, parse_mode, slices_of
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceClass, ResourceSlice
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import SelectorView

#: The vendors of the packaged hardware, by driver.
_VENDORS: Final = {"gpu.nvidia.com": "nvidia", "gpu.amd.com": "amd", "gpu.example.com": "example"}
_INSTALLED: Final = {one.metadata.name: one for classes in CLASSES.values() for one in classes}


class Specimen(NamedTuple):
    """A device: of which accelerator, what part of it (``3g.40gb``; empty for the whole), and how CEL sees it."""

    driver: str
    accelerator: Accelerator | None
    part: str
    device: Device
    seen: DeviceInput

    @property
    def title(self) -> str:
        """What people call it."""
        product = self.accelerator.product if self.accelerator else self.device.name
        return f"{self.part} of {product}" if self.part else product

    def memory(self) -> Quantity | None:
        """How much memory it publishes."""
        for key in ("memory", f"{self.driver}/memory"):
            if key in self.device.capacity:
                return self.device.capacity[key].value
        return None

    def text(self, name: str) -> str:
        """A string attribute of the driver's domain; empty where it has none of that name."""
        for key in (name, f"{self.driver}/{name}"):
            found = self.device.attributes.get(key)
            if found is not None:
                return found.string or ""
        return ""


@cache
def specimens(driver: str, release: str = "") -> tuple[Specimen, ...]:
    """One device of every kind that a driver would publish on the hardware that is known; none for most drivers."""
    vendor = _VENDORS.get(driver)
    found: dict[tuple[str, str], Specimen] = {}
    for accelerator in accelerators().values():
        if accelerator.vendor != vendor:
            continue
        machine = hardware(accelerator.id)
        for mode in _modes(accelerator, "v0" if vendor == "amd" and release.startswith("0") else ""):
            for one in slices_of(machine, parse_mode(mode, machine), "node"):
                for specimen in _of_slice(one, accelerator):
                    found.setdefault((accelerator.id, f"{specimen.part} {specimen.text('type')}"), specimen)
    return tuple(found.values())


def given_specimens(bundle: Bundle) -> Mapping[str, tuple[Specimen, ...]]:
    """One device of every kind in the given slices, by driver: of those alike in product, part and type only one."""
    by_product = {one.product: one for one in accelerators().values()}
    found: dict[str, dict[tuple[str, str, str], Specimen]] = {}
    for one in bundle.slices or ():
        kinds = found.setdefault(one.spec.driver, {})
        for each in _of_slice(one, None):
            product = each.text("productName")
            kinds.setdefault(
                (product, each.part, each.text("type")), each._replace(accelerator=by_product.get(product))
            )
    return {driver: tuple(kinds.values()) for driver, kinds in found.items()}


def _modes(accelerator: Accelerator, version: str) -> tuple[str, ...]:
    suffix = f"@{version}" if version else ""
    if accelerator.partitions:
        return tuple(f"{one.compute}-{one.memory}{suffix}" for one in accelerator.partitions)
    match accelerator.vendor:
        case "nvidia":
            return ("", "dynamic-mig", "vfio") if accelerator.mig else ("", "vfio")
        case "amd":
            # The driver of 2025 knew nothing of GPUs without partition modes.
            return () if version else ("spx",)
        case _:
            return ("",)


def _of_slice(one: ResourceSlice, accelerator: Accelerator | None) -> Iterator[Specimen]:
    driver = one.spec.driver
    for device in one.spec.devices or ():
        specimen = Specimen(driver, accelerator, "", device, DeviceInput(driver, device))
        part = specimen.text("profile") or specimen.text("partitionProfile")
        yield specimen._replace(part="" if part.startswith("spx") else part)


def of_class(bundle: Bundle, name: str, devices: Iterable[Specimen]) -> tuple[Specimen, ...]:
    """The devices that a class selects; all of them where nobody knows the class."""
    found: DeviceClass | None = bundle.known_classes.get(name) or _INSTALLED.get(name)
    expressions = [one.cel.expression for one in (found.spec.selectors if found else ()) if one.cel]
    compiled = [_compiled(expression, bundle) for expression in expressions]
    chosen = [one for one in compiled if one is not None]
    return tuple(one for one in devices if all(_matches(selector.matches, one) is True for selector in chosen))


def let_through(
    bundle: Bundle, view: SelectorView, devices: Iterable[Specimen], without: Iterable[tuple[int, int]] = ()
) -> tuple[Specimen, ...]:
    """The devices that the request's class and this selector let through, leaving out the conjuncts at ``without``.

    A conjunct that fails on a device (an attribute that hardware of no cluster has) lets it through: only what a
    conjunct knows to be wrong is wrong.
    """
    selector = _compiled(view.expression, bundle)
    if selector is None:
        return ()
    left_out = tuple(without)
    conjuncts = [one for one in selector.conjuncts if not any(_overlap((one.start, one.stop), o) for o in left_out)]
    return tuple(
        one
        for one in of_class(bundle, view.class_name, devices)
        if all(_matches(conjunct.matches, one) is not False for conjunct in conjuncts)
    )


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _matches(match: Callable[[DeviceInput], bool], specimen: Specimen) -> bool | None:
    try:
        return match(specimen.seen)
    except EvaluationError:
        return None


def _compiled(expression: str, bundle: Bundle) -> Selector | None:
    try:
        return compile_selector(expression, bundle.features, env="new")
    except CompileError:
        return None
