"""Translates requirements on GPU node labels to CEL expressions on devices.

A requirement becomes an expression if devices publish the same fact, is dropped if the request already implies it, and
is kept if it describes the node (number of GPUs, machine type) or its value is unknown. A kept requirement works as
long as the label is set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from allotment.fleet.gpu_product_labels import (
    ARCHITECTURES,
    known_models,
    marketed_mib,
    product_of_label,
    products_of_cloud,
)
from allotment.tools.migrate.plugin_requests import Term, Vendor
from allotment.tools.migrate.report import Label


class Devices(NamedTuple):
    """The devices that expressions select: vendor and driver; ``pieces``: whether they are parts of GPUs."""

    vendor: Vendor
    driver: str
    pieces: bool = False

    def attribute(self, name: str) -> str:
        """The expression that reads an attribute."""
        return f'device.attributes["{self.driver}"].{name}'

    def memory(self, comparison: str) -> str:
        """The expression that compares the memory, which a driver does not publish if the GPU uses the CPU's memory."""
        capacity = f'device.capacity["{self.driver}"]'
        return f'"memory" in {capacity} && {capacity}.memory.{comparison}'


class _Translation(NamedTuple):
    """An expression, or the reason why the requirement is kept or ``dropped``."""

    expression: str = ""
    why: str = ""
    dropped: bool = False


_Translator = Callable[[Term, Devices], _Translation]


def translate_term(term: Term, devices: Devices) -> Label:
    """Translate a requirement.

    >>> term = Term((), "nvidia.com/gpu.product", "In", ("NVIDIA-H100-80GB-HBM3",))
    >>> translate_term(term, Devices("nvidia", "gpu.nvidia.com")).expression
    'device.attributes["gpu.nvidia.com"].productName == "NVIDIA H100 80GB HBM3"'
    """
    for vendor, pattern, translate in _TABLE:
        if vendor in ("", devices.vendor) and pattern.fullmatch(term.key):
            outcome = translate(term, devices)
            return Label(term=str(term), expression=outcome.expression, why=outcome.why, dropped=outcome.dropped)
    return Label(term=str(term))


def describes_gpus(term: Term) -> bool:
    """Whether a label describes GPUs."""
    return any(pattern.fullmatch(term.key) for _, pattern, _ in _TABLE)


def describes_plugin(term: Term) -> bool:
    """Whether a label describes how a device plugin shares GPUs; such labels disappear with the plugin."""
    if term.key == "nvidia.com/gpu.product":
        return any(value.endswith("-SHARED") for value in term.values)
    return _OF_PLUGIN.fullmatch(term.key) is not None


_OF_PLUGIN: Final = re.compile(
    r"nvidia\.com/(gpu\.(replicas|sharing-strategy|deploy\..+)|mps\.capable|device-plugin\.config"
    r"|mig-.+\.(replicas|sharing-strategy))"
    r"|cloud\.google\.com/gke-(gpu-sharing-strategy|max-shared-clients-per-gpu)"
)


# --- generic translators -----------------------------------------------------------------------------------------


def _keep(why: str) -> _Translator:
    return lambda term, devices: _Translation(why=why)


def _drop(why: str) -> _Translator:
    def translate(term: Term, devices: Devices) -> _Translation:
        if term.operator == "DoesNotExist":
            return _Translation(why="the absence of a label does not describe a GPU")
        return _Translation(why=why, dropped=True)

    return translate


_ALWAYS_MET = _Translation(why="every device of the request's class satisfies it", dropped=True)
_UNSUPPORTED = _Translation(why="the requirement is not supported")


def _membership(read: str, operator: str, literals: Iterable[str]) -> _Translation:
    """``In`` and ``NotIn`` of literals that are CEL already."""
    listed = tuple(dict.fromkeys(literals))
    if not listed or operator not in ("In", "NotIn"):
        return _UNSUPPORTED
    if len(listed) == 1:
        return _Translation(f"{read} {'==' if operator == 'In' else '!='} {listed[0]}")
    within = f"{read} in [{', '.join(listed)}]"
    return _Translation(within if operator == "In" else f"!({within})")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(attribute: str, method: str = "") -> _Translator:
    """A whole number that the driver publishes as an attribute, or as a part of a version."""

    def translate(term: Term, devices: Devices) -> _Translation:
        read = devices.attribute(attribute) + method
        if term.operator == "Exists":
            return _ALWAYS_MET
        if not all(value.isdecimal() for value in term.values):
            return _UNSUPPORTED
        values = [str(int(value)) for value in term.values]
        if term.operator in ("Gt", "Lt") and len(values) == 1:
            return _Translation(f"{read} {'>' if term.operator == 'Gt' else '<'} {values[0]}")
        return _membership(read, term.operator, values)

    return translate


# --- NVIDIA ------------------------------------------------------------------------------------------------------


def _product(term: Term, devices: Devices) -> _Translation:
    if term.operator == "Exists":
        return _ALWAYS_MET
    found = [product_of_label(value) for value in term.values]
    if all(certain for _, certain in found):
        return _membership(devices.attribute("productName"), term.operator, (_quoted(name) for name, _ in found))
    # The label does not show which dashes were spaces, so names are compared in the label's form.
    labels = [product_of_label(value)[0] for value in term.values]
    labels = [
        label if certain else value for label, value, (_, certain) in zip(labels, term.values, found, strict=True)
    ]
    read = f'{devices.attribute("productName")}.replace(" ", "-")'
    return _membership(read, term.operator, (_quoted(label.replace(" ", "-")) for label in labels))


def _family(term: Term, devices: Devices) -> _Translation:
    if term.operator == "Exists":
        return _ALWAYS_MET
    if any(value not in ARCHITECTURES for value in term.values):
        return _UNSUPPORTED
    literals = (_quoted(ARCHITECTURES[value]) for value in term.values)
    return _membership(devices.attribute("architecture"), term.operator, literals)


def _memory(term: Term, devices: Devices) -> _Translation:
    """MiB as NVML reports them and the driver publishes them."""
    if term.operator == "Exists":
        return _ALWAYS_MET
    if not all(value.isdecimal() for value in term.values):
        return _UNSUPPORTED
    if term.operator in ("Gt", "Lt") and len(term.values) == 1:
        if devices.pieces:
            return _Translation(why="a MIG device publishes its own memory, not that of its GPU")
        method = "isGreaterThan" if term.operator == "Gt" else "isLessThan"
        return _Translation(devices.memory(f'{method}(quantity("{int(term.values[0])}Mi"))'))
    wanted = {int(value) for value in term.values}
    models = [model for model in known_models("nvidia") if model.memory_mib in wanted]
    if wanted <= {model.memory_mib for model in models}:
        # Select the model, not the capacity, whose last digits change with the driver version.
        literals = (_quoted(model.product) for model in models)
        return _membership(devices.attribute("productName"), term.operator, literals)
    return _Translation(why="no known GPU has exactly this memory")


def _cloud(term: Term, devices: Devices) -> _Translation:
    if term.operator == "Exists":
        return _ALWAYS_MET
    found = [products_of_cloud(value) for value in term.values]
    if not found or not all(found):
        return _Translation(why="the GPU model is unknown")
    literals = (_quoted(name) for names in found for name in names)
    return _membership(devices.attribute("productName"), term.operator, literals)


def _marketed_memory(unit: int) -> _Translator:
    """Marketed memory in units of ``unit`` MiB; more than the driver reports, so it is mapped to models."""

    def translate(term: Term, devices: Devices) -> _Translation:
        if term.operator == "Exists":
            return _ALWAYS_MET
        if not term.values or not all(value.isdecimal() for value in term.values):
            return _UNSUPPORTED
        limits = [int(value) * unit for value in term.values]
        models = known_models("nvidia")
        if term.operator in ("In", "NotIn"):
            same = [model for model in models if marketed_mib(model) in limits]
            if {marketed_mib(model) for model in same} != set(limits):
                return _Translation(why="no known GPU has exactly this memory")
            literals = (_quoted(model.product) for model in same)
            return _membership(devices.attribute("productName"), term.operator, literals)
        if devices.pieces:
            return _Translation(why="a MIG device publishes its own memory, not that of its GPU")
        if term.operator == "Gt":
            enough = [model for model in models if marketed_mib(model) > limits[0]]
            if not enough:
                return _Translation(why="no known GPU has more memory")
            return _Translation(devices.memory(f'compareTo(quantity("{enough[0].memory_mib}Mi")) >= 0'))
        small = [model for model in models if marketed_mib(model) < limits[0]]
        if term.operator == "Lt" and small:
            return _Translation(devices.memory(f'compareTo(quantity("{small[-1].memory_mib}Mi")) <= 0'))
        return _UNSUPPORTED

    return translate


# --- AMD, Intel --------------------------------------------------------------------------------------------------


def _amd_product(term: Term, devices: Devices) -> _Translation:
    # The labeller writes underscores for blanks, and so does the driver.
    if term.operator == "Exists":
        return _ALWAYS_MET
    return _membership(devices.attribute("productName"), term.operator, map(_quoted, term.values))


def _amd_model(of: Callable[[str], str]) -> _Translator:
    """A label value that identifies models; ``of`` converts it to the form in the GPU profiles."""

    def translate(term: Term, devices: Devices) -> _Translation:
        if term.operator == "Exists":
            return _ALWAYS_MET
        wanted = {of(value) for value in term.values}
        models = [m for m in known_models("amd") if {m.pci_device, f"{round(m.memory_mib / 1024)}G"} & wanted]
        known = {fact for m in models for fact in (m.pci_device, f"{round(m.memory_mib / 1024)}G")}
        if not wanted or not wanted <= known:
            return _Translation(why="the GPU model is unknown")
        return _membership(devices.attribute("productName"), term.operator, (_quoted(m.product) for m in models))

    return translate


def _intel_device(term: Term, devices: Devices) -> _Translation:
    """``gpu.intel.com/device-id.0300-56c0.present``: the label's name contains PCI class and device ID."""
    found = re.fullmatch(r"gpu\.intel\.com/device-id\.[0-9a-f]{4}-([0-9a-f]{4})\.(?:present|count)", term.key)
    if found is None or term.operator not in ("In", "Exists") or "false" in term.values:
        return _UNSUPPORTED
    if term.key.endswith(".count") and term.operator == "In":
        return _Translation(why="it counts the GPUs of the node, which no device publishes")
    return _Translation(f'{devices.attribute("pciId")} == "0x{found[1]}"')


# --- the table ---------------------------------------------------------------------------------------------------

_NODE: Final = "it describes the node: no device publishes the number of GPUs"
_MACHINE: Final = "it names a machine type, not a GPU model; it still works as a node label"
_PLUGIN: Final = "it describes how the device plugin shared GPUs; the claim now specifies this"
_IN_REQUEST: Final = "the request specifies the profile"
_VENDOR: Final = "the request's class specifies it"
_GPU_MODE: Final = "no device publishes this"


def _rows() -> Iterable[tuple[str, str, _Translator]]:
    gpu = r"nvidia\.com/gpu\."
    yield "nvidia", gpu + "product", _product
    yield "nvidia", gpu + "family", _family
    yield "nvidia", gpu + "memory", _memory
    yield "nvidia", gpu + r"compute\.major", _number("cudaComputeCapability", ".major()")
    yield "nvidia", gpu + r"compute\.minor", _number("cudaComputeCapability", ".minor()")
    yield "nvidia", r"nvidia\.com/cuda\.driver(-version)?\.major", _number("driverVersion", ".major()")
    yield "nvidia", r"nvidia\.com/cuda\.driver(-version)?\.minor", _number("driverVersion", ".minor()")
    yield "nvidia", r"nvidia\.com/cuda\.runtime(-version)?\.major", _number("cudaDriverVersion", ".major()")
    yield "nvidia", r"nvidia\.com/cuda\.runtime(-version)?\.minor", _number("cudaDriverVersion", ".minor()")
    yield "nvidia", gpu + "(replicas|sharing-strategy)", _drop(_PLUGIN)
    yield "nvidia", gpu + "present", _drop(_VENDOR)
    yield "nvidia", r"nvidia\.com/gpu\.deploy\..+|nvidia\.com/(mps\.capable|device-plugin\.config)", _drop(_PLUGIN)
    yield "nvidia", r"nvidia\.com/mig\.(strategy|config|config\.state)", _drop(_IN_REQUEST)
    yield "nvidia", r"nvidia\.com/mig-.+\.(count|product|memory|replicas|sharing-strategy)", _drop(_IN_REQUEST)
    yield "nvidia", gpu + "count", _keep(_NODE)
    yield "nvidia", gpu + "machine", _keep(_MACHINE)
    yield "nvidia", r"nvidia\.com/(gpu|mig|vgpu|cuda|gfd)[.-].+", _keep(_GPU_MODE)
    yield "nvidia", r"feature\.node\.kubernetes\.io/pci-(0300_|0302_)?10de\.present", _drop(_VENDOR)
    yield "nvidia", r"cloud\.google\.com/gke-accelerator", _cloud
    yield "nvidia", r"cloud\.google\.com/gke-(gpu-sharing-strategy|max-shared-clients-per-gpu)", _drop(_PLUGIN)
    yield "nvidia", r"cloud\.google\.com/gke-gpu-partition-size", _drop(_IN_REQUEST)
    yield "nvidia", r"cloud\.google\.com/gke-accelerator-count", _keep(_NODE)
    yield "nvidia", r"cloud\.google\.com/gke-gpu(-.+)?", _keep(_GPU_MODE)
    yield "nvidia", r"karpenter\.k8s\.aws/instance-gpu-name|k8s\.amazonaws\.com/accelerator", _cloud
    yield "nvidia", r"karpenter\.k8s\.aws/instance-gpu-memory", _marketed_memory(1)
    yield "nvidia", r"karpenter\.k8s\.aws/instance-gpu-manufacturer", _drop(_VENDOR)
    yield "nvidia", r"karpenter\.k8s\.aws/instance-gpu-count", _keep(_NODE)
    yield "nvidia", r"gpu\.nvidia\.com/(class|model)", _cloud
    yield "nvidia", r"gpu\.nvidia\.com/vram", _marketed_memory(1024)
    yield "nvidia", r"gpu\.nvidia\.com/count", _keep(_NODE)
    yield "", r"(kubernetes\.azure\.com/)?accelerator", _accelerator
    yield "amd", r"(beta\.)?amd\.com/gpu\.product-name", _amd_product
    yield "amd", r"(beta\.)?amd\.com/gpu\.device-id", _amd_model(lambda value: f"0x{value}")
    yield "amd", r"(beta\.)?amd\.com/gpu\.vram", _amd_model(str)
    yield "amd", r"amd\.com/(compute-memory-partition|gpu\.compute-memory-partition)", _drop(_IN_REQUEST)
    yield "amd", r"(beta\.)?amd\.com/.+", _keep(_GPU_MODE)
    yield "amd", r"feature\.node\.kubernetes\.io/(amd-gpu|pci-(0300_|0302_|1200_)?1002\.present)", _drop(_VENDOR)
    yield "intel", r"gpu\.intel\.com/device-id\..+", _intel_device
    yield "intel", r"intel\.feature\.node\.kubernetes\.io/gpu", _drop(_VENDOR)
    yield "intel", r"gpu\.intel\.com/.+", _keep(_GPU_MODE)
    yield "", r"(beta\.kubernetes\.io|node\.kubernetes\.io)/instance-type", _keep(_MACHINE)


def _accelerator(term: Term, devices: Devices) -> _Translation:
    """AKS labels its GPU nodes by vendor; elsewhere the same label names the model."""
    if term.operator == "In" and term.values == (devices.vendor,):
        return _Translation(why=_VENDOR, dropped=True)
    return _cloud(term, devices) if devices.vendor == "nvidia" else _Translation(why="the GPU model is unknown")


_TABLE: Final = tuple((vendor, re.compile(pattern), translate) for vendor, pattern, translate in _rows())
