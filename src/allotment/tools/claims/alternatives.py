"""The device requests that state the requirements: one per vendor whose devices fit, one selector per condition.

Conditions are written for what drivers publish: products by the words of their names, sizes by bounds that include all
cards of the advertised size and no smaller one. For given hardware, products are named exactly, and attributes that it
does not publish are not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allotment.fleet.advertised_memory import GIB, memory_bound
from allotment.fleet.errors import suggestion
from allotment.model.quantity import Quantity
from allotment.phrases import listed
from allotment.tools.claims.request import ClaimError, LackingDevices, Memory, Part, Requirements, Share, binary_text
from allotment.tools.claims.supply import DIALECTS, REAL_VENDORS, DeviceKind, Supply, known_kinds, words_of
from allotment.vocabulary import installed_classes

PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
_NOUNS: Final[dict[Part, str]] = {"whole": "GPU", "mig": "MIG device", "partition": "GPU partition"}
#: Maximum number of products in a message.
_PRODUCTS: Final = 4


class Condition(NamedTuple):
    """A CEL expression, and a short comment that explains it."""

    expression: str
    comment: str


class Alternative(NamedTuple):
    """A device request: the class with a comment, its conditions, and the kinds of devices that satisfy them.

    ``capacity``: the memory that it consumes of a shared device. ``extended``: the class's extended resource.
    """

    vendor: str
    class_name: str
    comment: str
    conditions: tuple[Condition, ...]
    kinds: tuple[DeviceKind, ...]
    capacity: str = ""
    extended: str = ""


def alternatives(required: Requirements, supply: Supply) -> tuple[Alternative, ...]:
    """Return the requests, one per vendor, in order of preference. Raises ClaimError."""
    if required.class_name and not (found := _vendor_of_class(required, supply)):
        if required.model or required.memory or required.profile or required.divides:
            raise ClaimError(
                f"conditions on {required.class_name} cannot be written, because its driver is unknown",
                f"state the vendor: expected one of {', '.join(REAL_VENDORS)}",
                argument="device_class",
            )
        return (Alternative("", required.class_name, "the kind of device, by the administrator's DeviceClass", (), ()),)
    vendors = [found] if required.class_name else list(_vendors(required, supply))
    matches = {vendor: _fitting(required, supply, vendor) for vendor in vendors}
    fitting = {vendor: kinds for vendor, kinds in matches.items() if kinds}
    if not fitting:
        raise _lacking(required, supply, vendors)
    return tuple(_alternative(required, supply, vendor, kinds) for vendor, kinds in fitting.items())


# --- which vendors and kinds -----------------------------------------------------------------------------------------


def _vendor_of_class(required: Requirements, supply: Supply) -> str:
    if required.vendor and required.vendor != "any":
        return required.vendor
    driver = installed_classes()[required.class_name][0] if required.class_name in installed_classes() else ""
    return next((name for name, dialect in DIALECTS.items() if dialect.driver == driver), "")


def _vendors(required: Requirements, supply: Supply) -> Iterable[str]:
    """The vendors to consider, in order of preference."""
    able = [name for name, dialect in DIALECTS.items() if required.part in dialect.classes]
    if required.vendor and required.vendor != "any":
        if required.vendor not in able:
            raise ClaimError(f"{DIALECTS[required.vendor].title}'s driver has no {_NOUNS[required.part]}s")
        return (required.vendor,)
    if supply.given:
        return [name for name in able if any(kind.vendor == name for kind in supply.kinds)] or able
    if required.vendor == "any":
        return [name for name in able if name in REAL_VENDORS]
    by_model = [name for name in able if required.model and _of_model(known_kinds(), name, required.model)]
    return by_model or able[:1]


def _of_model(kinds: Iterable[DeviceKind], vendor: str, model: str) -> list[DeviceKind]:
    words = set(words_of(model))
    return [kind for kind in kinds if kind.vendor == vendor and words and words <= kind.words]


def _fitting(required: Requirements, supply: Supply, vendor: str) -> tuple[DeviceKind, ...]:
    """The kinds of a vendor's devices that satisfy every condition."""
    kinds = supply.of(vendor, required.part)
    if supply.has_product(required.model):
        kinds = tuple(kind for kind in kinds if kind.product == required.model)
    for test in _tests(required):
        kinds = tuple(kind for kind in kinds if test(kind))
    if _by_profile(required):
        kinds = tuple(_smallest_profiles(kinds))
    return kinds


def _tests(required: Requirements) -> Iterator[Callable[[DeviceKind], bool]]:
    words, profile = set(words_of(required.model)), required.profile
    memory, share = required.memory, required.share
    if words:
        yield lambda kind: words <= kind.words
    if profile:
        yield lambda kind: kind.profile == profile
    if memory is not None:
        yield lambda kind: _is_enough(kind, memory)
    if share is not None and share.divides:
        # Known hardware can be shared if its driver is configured for it; only given hardware tells.
        yield lambda kind: kind.vendor == "nvidia" and (kind.shared or not kind.attributes)


def _is_enough(kind: DeviceKind, memory: Memory) -> bool:
    if memory.gb:
        return kind.size.advertised >= memory.gb
    return kind.size.published >= Quantity.parse(memory.exact).value()


def _smallest_profiles(kinds: Sequence[DeviceKind]) -> Iterator[DeviceKind]:
    """The smallest MIG profiles of each product; a larger one would waste a part of the GPU."""
    for product in dict.fromkeys(kind.product for kind in kinds):
        same = [kind for kind in kinds if kind.product == product and not set("+-") & set(kind.profile)]
        least = min(((kind.profile[:1], kind.size.published) for kind in same), default=None)
        yield from (kind for kind in same if (kind.profile[:1], kind.size.published) == least)


def _lacking(required: Requirements, supply: Supply, vendors: Sequence[str]) -> ClaimError:
    """The error for a request that no kind of device satisfies: the first condition that leaves none."""
    title = f"{DIALECTS[vendors[0]].title} " if required.vendor == vendors[0] or not supply.given else ""
    where = "the given hardware" if supply.given else "the known hardware"
    refusal = LackingDevices if supply.given else ClaimError
    kinds = [kind for vendor in vendors for kind in supply.of(vendor, required.part)]
    if not kinds:
        others = dict.fromkeys(kind.title for kind in supply.kinds)
        hint = f"it has {_some(others)}" if others else "it has no devices of known drivers"
        return refusal(f"{where} has no {title}{_NOUNS[required.part]}", hint)
    if required.model:
        named = [kind for kind in kinds if set(words_of(required.model)) <= kind.words]
        if not named:
            close = _similar(required.model, kinds)
            products = _some(dict.fromkeys(kind.product.replace("_", " ") for kind in kinds))
            text = f"{where} has no {title}{_NOUNS[required.part]} of model {required.model}"
            return refusal(text, close or f"it has {products}")
        kinds = named
    if required.profile:
        same = [kind for kind in kinds if kind.profile == required.profile]
        if not same:
            known = list(dict.fromkeys(kind.profile for kind in kinds))
            text = f"{where} has no {_NOUNS[required.part]} of profile {required.profile}"
            return refusal(text, suggestion(required.profile, known) or f"it has {listed(known)}")
        kinds = same
    if required.memory is not None and not any(_is_enough(kind, required.memory) for kind in kinds):
        largest = max(kinds, key=lambda kind: kind.size)
        model = f"{required.model} " if required.model else ""
        text = f"{where} has no {title}{model}{_NOUNS[required.part]} with {required.memory.text} or more"
        hint = f"the largest, {largest.title}, has {largest.size.advertised} GB"
        return refusal(text, hint)
    if set(vendors) == {"amd"}:
        return ClaimError(
            "AMD's driver does not divide the memory of a GPU", "request a partition instead", argument="share"
        )
    return refusal(
        f"{where} has no {title}{_NOUNS[required.part]} that several claims can share",
        "the NVIDIA driver publishes such GPUs with its chart's consumableShares; a share without an amount lets pods "
        "share one claim",
    )


def _similar(model: str, kinds: Sequence[DeviceKind]) -> str:
    known = dict.fromkeys(word for kind in kinds for word in sorted(kind.words))
    close = [suggestion(word, list(known)) for word in words_of(model) if word not in known]
    return next((text.upper().replace("DID YOU MEAN", "did you mean") for text in close if text), "")


def _some(names: Iterable[str]) -> str:
    found = list(names)
    rest = len(found) - _PRODUCTS
    return listed(found) if rest <= 0 else f"{', '.join(found[:_PRODUCTS])} and {rest} more"


# --- as a request ----------------------------------------------------------------------------------------------------


def _alternative(required: Requirements, supply: Supply, vendor: str, kinds: tuple[DeviceKind, ...]) -> Alternative:
    dialect = DIALECTS[vendor]
    class_name = required.class_name or dialect.classes[required.part]
    if supply.given and class_name not in supply.classes:
        known = sorted(supply.classes)
        text = f"DeviceClass {class_name} does not exist in the cluster"
        raise LackingDevices(text, suggestion(class_name, known) or f"it has {listed(known)}")
    sharing = required.share if required.divides else None
    conditions = [
        *_type(required, vendor),
        *([_product(required, supply, vendor, kinds)] if required.model else []),
        *([_profile(required, vendor, kinds)] if required.profile or _by_profile(required) else []),
        *([_memory(required, supply, vendor)] if required.memory and not _by_profile(required) else []),
        *([Condition("device.allowMultipleAllocations", "only GPUs that several claims can share")] if sharing else []),
    ]
    if required.same_root:
        _require_root(supply, kinds)
    if class_name in installed_classes():
        comment = f"{dialect.title}'s {_NOUNS[required.part]}s; the driver's chart installs the class"
        if dialect.typed:
            comment = f"all devices of {dialect.title}'s driver, whose chart installs the class"
    else:
        comment = "the kind of device, by the administrator's DeviceClass"
    return Alternative(
        vendor,
        class_name,
        comment,
        tuple(conditions),
        kinds,
        _amount(sharing, kinds, supply) if sharing else "",
        _extended(class_name, f"{dialect.resources}/gpu", supply) if required.part == "whole" else "",
    )


def _by_profile(required: Requirements) -> bool:
    """Whether the memory is stated by the profiles that have it."""
    return required.part == "mig" and not required.profile and required.memory is not None


def _extended(class_name: str, whole: str, supply: Supply) -> str:
    """The extended resource of a class: that of the cluster's class, or the one that the driver's chart sets.

    ``whole``: the resource of the vendor's whole GPUs, which another class of the cluster may serve.
    """
    if supply.given:
        return supply.classes.get(class_name) or (whole if whole in supply.classes.values() else "")
    found = installed_classes().get(class_name)
    return found[1].extended_resource if found is not None else ""


def _attribute(vendor: str, name: str) -> str:
    return f'device.attributes["{DIALECTS[vendor].driver}"].{name}'


def _type(required: Requirements, vendor: str) -> Iterator[Condition]:
    """The type of device, unless the class selects only this type."""
    dialect = DIALECTS[vendor]
    types = [name for name, part in dialect.types.items() if part == required.part and name]
    if required.class_name and required.class_name not in installed_classes():
        yield Condition(f'device.driver == "{dialect.driver}"', f"devices of {dialect.title}'s driver only")
    elif not dialect.typed:
        return
    if types:
        kind = "not partitions or GPUs for virtual machines" if required.part == "whole" else "not whole GPUs"
        yield Condition(f'{_attribute(vendor, "type")} == "{types[0]}"', f"{_NOUNS[required.part]}s only, {kind}")


def _product(required: Requirements, supply: Supply, vendor: str, kinds: Sequence[DeviceKind]) -> Condition:
    attribute = _attribute(vendor, DIALECTS[vendor].product)
    products = list(dict.fromkeys(kind.product for kind in kinds))
    if supply.given:
        test = f"== {_quoted(products[0])}" if len(products) == 1 else f"in [{', '.join(map(_quoted, products))}]"
        return Condition(f"{attribute} {test}", "the model, as the driver publishes it")
    if supply.has_product(required.model):
        return Condition(f"{attribute} == {_quoted(required.model)}", "the model, as the driver publishes it")
    words = words_of(required.model)
    spelled = [word for word in _spelled(products[0]) if word.lower() in words]
    comment = f"the model, such as {products[0]}"
    known = [kind for kind in known_kinds() if kind.vendor == vendor]
    if len(spelled) == 1 and all((spelled[0] in kind.product) == (words[0] in kind.words) for kind in known):
        return Condition(f'{attribute}.contains("{spelled[0]}")', comment)
    if vendor == "amd":  # an underscore belongs to a word
        pattern = ".*".join(f"(^|_){word}(_|$)" for word in spelled)
    else:
        pattern = ".*".join(rf"\b{word}\b" for word in spelled)
    return Condition(f'{attribute}.matches(r"{pattern}")', comment)


def _spelled(product: str) -> list[str]:
    """The words of a product as it writes them."""
    lowered = words_of(product)
    return [product[start : start + len(word)] for word in lowered if (start := product.lower().find(word)) >= 0]


def _profile(required: Requirements, vendor: str, kinds: Sequence[DeviceKind]) -> Condition:
    names = list(dict.fromkeys(kind.profile for kind in kinds))
    if vendor == "amd":
        return _partition_mode(required.profile, kinds)
    attribute = _attribute(vendor, "profile")
    if required.profile:
        return Condition(f'{attribute} == "{required.profile}"', _profile_comment(required.profile, kinds))
    size = required.memory.text if required.memory is not None else ""
    test = f'== "{names[0]}"' if len(names) == 1 else f"in [{', '.join(map(_quoted, names))}]"
    return Condition(f"{attribute} {test}", f"the smallest MIG profile of each model with {size}")


def _profile_comment(profile: str, kinds: Sequence[DeviceKind]) -> str:
    published = sorted({kind.size.published for kind in kinds})
    amounts = binary_text(published[0]) if len(published) == 1 else _range(published[0], published[-1])
    return f"MIG profile {profile}, which has {amounts} of memory"


def _partition_mode(mode: str, kinds: Sequence[DeviceKind]) -> Condition:
    """The compute mode: of a GPU that was partitioned beforehand, or one that is partitioned on demand."""
    domain = DIALECTS["amd"].driver
    attributes = f'device.attributes["{domain}"]'
    tests = {"partitionProfile": f'.startsWith("{mode}_")', "computePartition": f' == "{mode}"'}
    published = [name for name in tests if any(not k.attributes or f"{domain}/{name}" in k.attributes for k in kinds)]
    comment = f"partitions in mode {mode.upper()}{', made beforehand or on demand' if len(published) > 1 else ''}"
    guarded = (f'"{name}" in {attributes} && {attributes}.{name}{tests[name]}' for name in published)
    return Condition(" || ".join(guarded), comment)


def _memory(required: Requirements, supply: Supply, vendor: str) -> Condition:
    memory = required.memory
    assert memory is not None
    domain = DIALECTS[vendor].driver
    quantity, comment = memory.exact, f"at least {memory.exact} of memory"
    if memory.gb:
        # Known hardware counts, too: the bound shall hold for cards that are added later.
        kinds = {
            *supply.of(vendor, required.part),
            *(k for k in known_kinds() if (k.vendor, k.part) == (vendor, required.part)),
        }
        bound = memory_bound(memory.gb, (kind.size for kind in kinds))
        if bound is None:
            quantity = f"{memory.gb}Gi"
        else:
            quantity = bound.quantity
            below = f"; the next smaller size is {bound.below} GB" if bound.below else ""
            published = _range(bound.lowest, bound.highest)
            comment = f"{memory.gb} GB or more: those of {bound.size} GB publish {published}{below}"
    return Condition(f'device.capacity["{domain}"].memory.compareTo(quantity("{quantity}")) >= 0', comment)


def _range(lowest: int, highest: int) -> str:
    if lowest == highest:
        return binary_text(lowest)
    return f"{round(lowest / GIB, 1):g} to {round(highest / GIB, 1):g}Gi"


def _require_root(supply: Supply, kinds: Iterable[DeviceKind]) -> None:
    without = [kind for kind in kinds if supply.given and PCIE_ROOT not in kind.attributes]
    if without:
        text = f"{without[0].title} does not publish {PCIE_ROOT}"
        hint = "NVIDIA's driver publishes it since release 25.8"
        raise LackingDevices(text, hint, argument="same_switch")


def _amount(share: Share, kinds: Sequence[DeviceKind], supply: Supply) -> str:
    """The memory that a share consumes."""
    if share.fraction is None:
        return share.amount
    part, whole = share.fraction
    sizes = {kind.size.published for kind in kinds}
    if len(sizes) > 1 and not supply.given and len({kind.size.advertised for kind in kinds}) > 1:
        raise ClaimError(
            f"{part}/{whole} requires the size of the GPU",
            "state the model, the memory or the hardware, or an amount",
            argument="share",
        )
    return binary_text(min(sizes) * part // whole)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # CEL has the escapes of JSON
