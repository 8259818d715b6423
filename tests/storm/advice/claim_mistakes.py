"""Mistakes in the claim: names, values, types, amounts and constraints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from allotment.model.trees import Tree
from tests.storm.advice import machines
from tests.storm.advice.machines import AMD, GIB, GPU, MIG, attribute
from tests.storm.advice.mistake import Mistake, Plant
from tests.storm.advice.typing_errors import informal_name, misspelled
from tests.storm.advice.worlds import Inapplicable, World, set_admin_access

_NAME: Final = re.compile(r"(?<=\]\.)(productName|architecture|cudaComputeCapability|profile)\b")
_CAPACITY_NAME: Final = re.compile(r"(?<=\]\.)memory\b")
_DOMAIN: Final = re.compile(r"(?<=[\"'])(gpu\.nvidia\.com|gpu\.amd\.com)(?=[\"']\]\.)")
_PRODUCT: Final = re.compile(r"(?<=productName == )([\"'])([^\"']+)\1")
_ARCHITECTURE: Final = re.compile(r"(?<=architecture == )([\"'])([^\"']+)\1")
_PROFILE: Final = re.compile(r"(?<=profile == )([\"'])([^\"']+)\1")
_AMOUNT: Final = re.compile(r'(?<=quantity\(")([0-9]+)Gi(?="\))')
_COMPARISON: Final = re.compile(r'\.compareTo\(quantity\("([^"]+)"\)\) >= 0')
_ATTRIBUTES: Final = re.compile(r"device\.attributes(?=\[[^]]+\]\.(productName|architecture|profile) )")
_STRING_COMPARISON: Final = re.compile(r"\.(productName|architecture|profile) ==")
_WITH_DOMAIN: Final = re.compile(r"device\.attributes\[[\"']gpu[^]]+\]")
_COMPARISON_IN_GIB: Final = re.compile(r'\.compareTo\(quantity\("([0-9]+)Gi"\)\) >= 0')
_NUMA_NODE: Final = re.compile(r"(?<=numaNode == )([0-9]+)")
_VERSION: Final = re.compile(r'\.compareTo\(semver\("([0-9]+\.[0-9]+)\.[0-9]+"\)\) >= 0')


# --- selectors ------------------------------------------------------------------------------------------------------


def in_selector(pattern: re.Pattern[str], new: Callable[[Random, World, re.Match[str]], str]) -> Plant:
    """A mistake that replaces the first place of a selector where the pattern matches."""

    def plant(random: Random, world: World) -> World:
        for selector in world.request.get("selectors") or ():
            expression = selector["cel"]["expression"]
            found = pattern.search(expression)
            if found is None:
                continue
            changed = expression[: found.start()] + new(random, world, found) + expression[found.end() :]
            if changed != expression:
                selector["cel"]["expression"] = changed
                return world
        raise Inapplicable

    return plant


def _to(text: str) -> Callable[[Random, World, re.Match[str]], str]:
    """A replacement with the groups of the match."""
    return lambda random, world, found: found.expand(text)


def _mistyped(random: Random, world: World, found: re.Match[str]) -> str:
    return misspelled(random, found[0])


def _quoted(change: Callable[[Random, str], str]) -> Callable[[Random, World, re.Match[str]], str]:
    """A replacement of the text between quotes."""
    return lambda random, world, found: f"{found[1]}{change(random, found[2])}{found[1]}"


def _name(random: Random, world: World, found: re.Match[str]) -> str:
    name = found[0]
    snake = re.sub("([A-Z])", r"_\1", name).lower()
    return random.choice([other for other in (name.lower(), snake, misspelled(random, name)) if other != name])


def _domain(random: Random, world: World, found: re.Match[str]) -> str:
    return random.choice([found[0].removeprefix("gpu."), found[0].removesuffix(".com"), misspelled(random, found[0])])


def _lower(random: Random, text: str) -> str:
    return text.lower()


def _profile(random: Random, text: str) -> str:
    return random.choice([text.replace(".", ""), text.replace("gb", "GB"), text.replace(".", "-")])


def _published(world: World) -> Iterator[Tree]:
    """The devices that are published for the requested class."""
    name = world.request["deviceClassName"]
    for tree in world.of_kind("ResourceSlice"):
        if tree["spec"]["driver"] != (AMD if name == AMD else GPU):
            continue
        for device in tree["spec"].get("devices") or ():
            if {GPU: "gpu", MIG: "mig"}.get(name) in (None, attribute(device, "type")):
                yield device


def _advertised(random: Random, world: World, found: re.Match[str]) -> str:
    """The number of GB that cards with at least this memory are sold with."""
    sold = _sold_gb(world, int(found[1]))
    return f"{sold}GB" if random.random() < 0.7 else f"{sold}gb"


def _sold_gb(world: World, gib: int) -> int:
    """The advertised size of the smallest whole GPU with at least this memory. Raises Inapplicable."""
    sizes = sorted((machines.memory(device), attribute(device, "productName")) for device in _published(world))
    for size, name in sizes:
        if size // GIB < gib:
            continue
        sold = next((machines.sold_gb(kind) for kind in machines.KINDS if machines.product(kind) == name), 0)
        if not 0.9 * 10**9 * sold <= size <= 1.1 * GIB * sold:  # a partition
            break
        return sold
    raise Inapplicable


def _nominal(random: Random, world: World, found: re.Match[str]) -> str:
    """The advertised size in GiB, which no such card has."""
    return f"{_sold_gb(world, int(found[1]))}Gi"


def _equals(random: Random, world: World, found: re.Match[str]) -> str:
    if not found[1].endswith("Gi"):  # another mistake has been made in it
        raise Inapplicable
    return f' == quantity("{_sold_gb(world, int(found[1].removesuffix("Gi")))}Gi")'


def _too_much(random: Random, world: World, found: re.Match[str]) -> str:
    most = max(machines.memory(device) for device in _published(world)) // GIB
    return f"{most + random.choice([1, 8, 40])}Gi"


def _other_product(random: Random, text: str) -> str:
    """A product that no random cluster has."""
    return random.choice(["NVIDIA H200", "NVIDIA B200", "NVIDIA L40"])


def _second_product(random: Random, world: World, found: re.Match[str]) -> str:
    names = sorted({attribute(device, "productName") for device in _published(world)} - {found[2]})
    if not names:
        raise Inapplicable
    driver = AMD if world.request["deviceClassName"] == AMD else GPU
    return f'{found[0]} && device.attributes["{driver}"].productName == "{random.choice(names)}"'


# --- requests and constraints ---------------------------------------------------------------------------------------


def _class_misspelled(random: Random, world: World) -> World:
    world.request["deviceClassName"] = misspelled(random, world.request["deviceClassName"])
    return world


def _class_of_partitions(random: Random, world: World) -> World:
    """The class of MIG devices, of which there are none. Of another vendor's devices only if they are the only ones:
    otherwise those of the class's vendor are nearer."""
    drivers = {tree["spec"]["driver"] for tree in world.of_kind("ResourceSlice")}
    is_of_vendor = world.request["deviceClassName"] != AMD or GPU not in drivers
    if not is_of_vendor or any(attribute(device, "type") == "mig" for device in _published_by_all(world)):
        raise Inapplicable
    world.request["deviceClassName"] = MIG
    return world


def _published_by_all(world: World) -> Iterator[Tree]:
    for tree in world.of_kind("ResourceSlice"):
        yield from tree["spec"].get("devices") or ()


def _one_too_many(random: Random, world: World) -> World:
    """One device more than any node has."""
    expressions = [entry["cel"]["expression"] for entry in world.request.get("selectors") or ()]
    found = _PRODUCT.search(" ".join(expressions))
    most = 0
    for tree in world.of_kind("ResourceSlice"):
        devices = [device for device in tree["spec"].get("devices") or () if device in list(_published(world))]
        most = max(most, sum(found is None or attribute(device, "productName") == found[2] for device in devices))
    if most < 1 or (found is None and expressions):
        raise Inapplicable
    world.request.update({"allocationMode": "ExactCount", "count": most + 1})
    return world


def _more_than_a_claim(random: Random, world: World) -> World:
    world.request.update({"allocationMode": "ExactCount", "count": random.choice([33, 40, 64])})
    return world


def _constraint(change: Callable[[Random, str], str]) -> Plant:
    """A mistake in the attribute that two devices must share."""

    def plant(random: Random, world: World) -> World:
        constraint = world.claim_spec["devices"]["constraints"][0]
        constraint["matchAttribute"] = change(random, constraint["matchAttribute"])
        return world

    return plant


def _unique(random: Random, name: str) -> str:
    """An attribute that has another value for each device."""
    return random.choice([f"{GPU}/uuid", "resource.kubernetes.io/pciBusID"])


def _of_driver(random: Random, name: str) -> str:
    """The attribute in the domain of the driver, which does not publish it there."""
    return f"{GPU}/{name.rpartition('/')[2]}"


def _without_label(random: Random, world: World) -> World:
    set_admin_access(world, allowed=False)
    return world


def _larger_share(random: Random, world: World) -> World:
    most = max(machines.memory(device) for device in _published(world)) // GIB
    world.request["capacity"] = {"requests": {"memory": f"{most + random.choice([1, 2, 16])}Gi"}}
    return world


_SPELLING: Final = frozenset({"name", "correction", "likely"})
_SMALLER: Final = frozenset({"less", "less-memory", "smaller", "smaller-share"})
_OTHER: Final = frozenset({"other-value", "smaller-model"})
#: The devices with exactly a version, instead of at least it, or of a second product may be on the nodes of the noise.
_ELSEWHERE: Final = frozenset({"uncordon", "driver", "select", "tolerate-node", "wait", "recover"})
_CEL: Final = frozenset({"selector-invalid", "selector-fails"})
_NOTHING: Final = frozenset({"selector-matches-nothing"})
_AMOUNTS: Final = frozenset({"selector-matches-nothing", "not-enough-capacity"})
_BY_PRODUCT: Final = frozenset({"product", "both", "numa", "matched"})
_BY_MEMORY: Final = frozenset({"memory", "both"})
_BY_NAME: Final = _BY_PRODUCT | {"architecture", "capability", "profile"}
_SELECTING: Final = _BY_NAME | _BY_MEMORY


def _of(*words: str) -> frozenset[str]:
    return frozenset(words)


CLAIM_MISTAKES: Final = (
    Mistake(
        "attribute misspelled", _BY_NAME, in_selector(_NAME, _name), _of("unknown-attribute", "selector-fails"),
        _SPELLING,
    ),
    Mistake(
        "capacity misspelled", _BY_MEMORY, in_selector(_CAPACITY_NAME, _mistyped),
        _of("unknown-attribute", "selector-fails"), _SPELLING,
    ),
    Mistake(
        "domain misspelled", _SELECTING, in_selector(_DOMAIN, _domain),
        _of("unknown-driver", "unknown-attribute", "selector-fails"), _SPELLING,
    ),
    Mistake("class misspelled", _SELECTING | {"any", "all"}, _class_misspelled, _of("class-missing"), _SPELLING),
    Mistake(
        "product misspelled", _BY_PRODUCT, in_selector(_PRODUCT, _quoted(misspelled)), _NOTHING,
        _SPELLING | _OTHER,
    ),
    Mistake(
        "product by its short name", _BY_PRODUCT, in_selector(_PRODUCT, _quoted(informal_name)), _NOTHING,
        _SPELLING | _OTHER,
    ),
    Mistake(
        "value in lower case", _of("architecture"), in_selector(_ARCHITECTURE, _quoted(_lower)), _NOTHING,
        _SPELLING | _OTHER,
    ),
    Mistake(
        "profile misspelled", _of("profile"), in_selector(_PROFILE, _quoted(_profile)), _NOTHING,
        _SPELLING | _OTHER,
    ),
    Mistake("unit GB", _BY_MEMORY, in_selector(_AMOUNT, _advertised), _CEL, _SPELLING),
    Mistake("advertised size in Gi", _BY_MEMORY, in_selector(_AMOUNT, _nominal), _AMOUNTS, _SPELLING | _SMALLER),
    Mistake(
        "attribute read as capacity", _BY_NAME, in_selector(_ATTRIBUTES, _to("device.capacity")),
        _of("attribute-read-as-capacity", "selector-invalid", "selector-fails"), _SPELLING,
    ),
    Mistake(
        "capacity read as attribute", _BY_MEMORY,
        in_selector(re.compile(r"device\.capacity"), _to("device.attributes")),
        _of("capacity-read-as-attribute", "selector-fails"), _SPELLING,
    ),
    Mistake(
        "accessor of an attribute", _BY_NAME, in_selector(_STRING_COMPARISON, _to(r".\1.string ==")), _CEL, _SPELLING,
    ),
    Mistake(
        "accessor of a capacity", _BY_MEMORY, in_selector(re.compile(r"\.memory\."), _to(".memory.value.")), _CEL,
        _SPELLING,
    ),
    Mistake(
        "attribute without domain", _BY_NAME, in_selector(_WITH_DOMAIN, _to("device.attributes")),
        _CEL | {"unknown-driver"}, _SPELLING,
    ),
    Mistake(
        "operator for a quantity", _BY_MEMORY, in_selector(_COMPARISON, _to(r' >= quantity("\1")')), _CEL, _SPELLING,
    ),
    Mistake("number for a quantity", _BY_MEMORY, in_selector(_COMPARISON_IN_GIB, _to(r" >= \1")), _CEL, _SPELLING),
    Mistake(
        "equality of memory", _BY_MEMORY, in_selector(_COMPARISON, _equals), _AMOUNTS,
        _SPELLING | _SMALLER | _OTHER,
    ),
    Mistake(
        "single equals sign", _of("product", "architecture", "profile"), in_selector(re.compile(" == "), _to(" = ")),
        _CEL, _SPELLING,
    ),
    Mistake("single ampersand", _of("both", "numa"), in_selector(re.compile(" && "), _to(" & ")), _CEL, _SPELLING),
    Mistake(
        "version as string", _of("capability"), in_selector(_VERSION, _to(r' == "\1"')),
        _of("type-mismatch", "selector-fails"), _SPELLING | _OTHER | _ELSEWHERE,
    ),
    Mistake("number as string", _of("numa"), in_selector(_NUMA_NODE, _to(r'"\1"')), _of("type-mismatch"), _SPELLING),
    Mistake(
        "more memory than any device", _BY_MEMORY, in_selector(_AMOUNT, _too_much),
        # Whole cards may have the memory that no partition has.
        _AMOUNTS | {"class-matches-nothing"}, _of("likely", "other-class") | _SMALLER | _OTHER, changes_devices=True,
    ),
    Mistake(
        "product that no node has", _of("product"), in_selector(_PRODUCT, _quoted(_other_product)), _NOTHING,
        _SPELLING | _OTHER, changes_devices=True,
    ),
    Mistake(
        "two products at once", _of("product"), in_selector(_PRODUCT, _second_product),
        _NOTHING | {"node-not-eligible"}, _of("condition") | _OTHER | _ELSEWHERE, changes_devices=True,
    ),
    Mistake("count too large by one", _of("product", "any"), _one_too_many, _of("too-few-devices"), _of("less")),
    Mistake(
        "more devices than a claim may have", _of("product", "any"), _more_than_a_claim, _of("too-many-devices"),
        _of("less"),
    ),
    Mistake(
        "constraint that no devices satisfy", _of("matched"), _constraint(_unique),
        _of("constraint-values-differ"), _of("constraint", "less"), changes_devices=True,
    ),
    Mistake(
        "constraint misspelled", _of("matched"), _constraint(misspelled), _of("constraint-attribute-unpublished"),
        _SPELLING,
    ),
    Mistake(
        "constraint with the wrong domain", _of("matched"), _constraint(_of_driver),
        _of("constraint-attribute-unpublished"), _SPELLING,
    ),
    Mistake(
        "admin access without the label", _of("admin"), _without_label, _of("admin-access-not-allowed"), _of("allow"),
    ),
    Mistake(
        "share larger than any device", _of("amount"), _larger_share, _AMOUNTS,
        # The amount may be the advertised size of a card of which others use shares.
        _of("likely", "wait") | _SMALLER | _OTHER, changes_devices=True,
    ),
    Mistake(
        "class of other devices", _of("any"), _class_of_partitions,
        _of("class-matches-nothing", "driver-missing", "unknown-driver"),
        _of("other-class", "other-driver"),
    ),
)  # fmt: skip
