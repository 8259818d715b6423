"""Sample devices of all known hardware, as its drivers publish them, to evaluate selectors on.

The known hardware is not a cluster: a selector that matches none of it is not proven wrong. A near miss, or a profile
that only another GPU has, is worth reporting.
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

#: The vendors of the known hardware, by driver.
_VENDORS: Final = {"gpu.nvidia.com": "nvidia", "gpu.amd.com": "amd", "gpu.example.com": "example"}
_INSTALLED_CLASSES: Final = {
    device_class.metadata.name: device_class for classes in CLASSES.values() for device_class in classes
}


class SampleDevice(NamedTuple):
    """A device: its accelerator, its partition (``3g.40gb``; empty for a whole device), and its CEL input."""

    driver: str
    accelerator: Accelerator | None
    partition: str
    device: Device
    cel_input: DeviceInput

    @property
    def title(self) -> str:
        """The name of the device in messages."""
        product = self.accelerator.product if self.accelerator else self.device.name
        return f"{self.partition} of {product}" if self.partition else product

    def memory(self) -> Quantity | None:
        """The published memory capacity; None if it has none."""
        for key in ("memory", f"{self.driver}/memory"):
            if key in self.device.capacity:
                return self.device.capacity[key].value
        return None

    def string_attribute(self, name: str) -> str:
        """A string attribute of the driver's domain; empty if it does not exist."""
        for key in (name, f"{self.driver}/{name}"):
            attribute = self.device.attributes.get(key)
            if attribute is not None:
                return attribute.string or ""
        return ""


@cache
def sample_devices(driver: str, release: str = "") -> tuple[SampleDevice, ...]:
    """One device of each kind that a driver publishes on known hardware; empty for drivers without known hardware."""
    vendor = _VENDORS.get(driver)
    samples: dict[tuple[str, str], SampleDevice] = {}
    for accelerator in accelerators().values():
        if accelerator.vendor != vendor:
            continue
        machine = hardware(accelerator.id)
        for mode in _modes(accelerator, "v0" if vendor == "amd" and release.startswith("0") else ""):
            for resource_slice in slices_of(machine, parse_mode(mode, machine), "node"):
                for sample in _samples_of_slice(resource_slice, accelerator):
                    samples.setdefault(
                        (accelerator.id, f"{sample.partition} {sample.string_attribute('type')}"), sample
                    )
    return tuple(samples.values())


def cluster_samples(bundle: Bundle) -> Mapping[str, tuple[SampleDevice, ...]]:
    """One device of each product, partition and type in the given slices, by driver."""
    accelerators_by_product = {resource_slice.product: resource_slice for resource_slice in accelerators().values()}
    samples: dict[str, dict[tuple[str, str, str], SampleDevice]] = {}
    for resource_slice in bundle.slices or ():
        kinds = samples.setdefault(resource_slice.spec.driver, {})
        for sample in _samples_of_slice(resource_slice, None):
            product = sample.string_attribute("productName")
            kinds.setdefault(
                (product, sample.partition, sample.string_attribute("type")),
                sample._replace(accelerator=accelerators_by_product.get(product)),
            )
    return {driver: tuple(kinds.values()) for driver, kinds in samples.items()}


def _modes(accelerator: Accelerator, version: str) -> tuple[str, ...]:
    suffix = f"@{version}" if version else ""
    if accelerator.partitions:
        return tuple(f"{partition.compute}-{partition.memory}{suffix}" for partition in accelerator.partitions)
    match accelerator.vendor:
        case "nvidia":
            return ("", "dynamic-mig", "vfio") if accelerator.mig else ("", "vfio")
        case "amd":
            # The 2025 driver did not support GPUs without partition modes.
            return () if version else ("spx",)
        case _:
            return ("",)


def _samples_of_slice(resource_slice: ResourceSlice, accelerator: Accelerator | None) -> Iterator[SampleDevice]:
    driver = resource_slice.spec.driver
    for device in resource_slice.spec.devices or ():
        sample = SampleDevice(driver, accelerator, "", device, DeviceInput(driver, device))
        profile = sample.string_attribute("profile") or sample.string_attribute("partitionProfile")
        yield sample._replace(partition="" if profile.startswith("spx") else profile)


def selected_by_class(bundle: Bundle, name: str, devices: Iterable[SampleDevice]) -> tuple[SampleDevice, ...]:
    """The devices that a class selects; all of them if the class is unknown."""
    device_class: DeviceClass | None = bundle.known_classes.get(name) or _INSTALLED_CLASSES.get(name)
    expressions = [
        sample.cel.expression for sample in (device_class.spec.selectors if device_class else ()) if sample.cel
    ]
    compiled = [_compile(expression, bundle) for expression in expressions]
    selectors = [sample for sample in compiled if sample is not None]
    return tuple(
        sample for sample in devices if all(_matches(selector.matches, sample) is True for selector in selectors)
    )


def selected_by(
    bundle: Bundle, view: SelectorView, devices: Iterable[SampleDevice], without: Iterable[tuple[int, int]] = ()
) -> tuple[SampleDevice, ...]:
    """The devices that the request's class and this selector select, ignoring the conjuncts that overlap ``without``.

    A conjunct whose evaluation fails (an attribute that the device lacks) does not exclude the device.
    """
    selector = _compile(view.expression, bundle)
    if selector is None:
        return ()
    excluded = tuple(without)
    conjuncts = [
        sample for sample in selector.conjuncts if not any(_overlap((sample.start, sample.stop), o) for o in excluded)
    ]
    return tuple(
        sample
        for sample in selected_by_class(bundle, view.class_name, devices)
        if all(_matches(conjunct.matches, sample) is not False for conjunct in conjuncts)
    )


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def _matches(match: Callable[[DeviceInput], bool], sample: SampleDevice) -> bool | None:
    try:
        return match(sample.cel_input)
    except EvaluationError:
        return None


def _compile(expression: str, bundle: Bundle) -> Selector | None:
    try:
        return compile_selector(expression, bundle.features, env="new")
    except CompileError:
        return None
