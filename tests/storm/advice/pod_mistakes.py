"""Mistakes in the pod: references to claims, rules for nodes, and extended resources."""

from __future__ import annotations

from random import Random
from typing import Final

from allotment.model.trees import Tree
from tests.storm.advice.machines import POOL_LABEL, PRODUCT_LABEL, attribute
from tests.storm.advice.mistake import Mistake
from tests.storm.advice.requests import EXTENDED_RESOURCE, STYLES
from tests.storm.advice.typing_errors import misspelled
from tests.storm.advice.worlds import Inapplicable, World

#: The fields that refer to a claim and to a template, each with the other one.
_CLAIM, _TEMPLATE = "resourceClaimName", "resourceClaimTemplateName"
_REFERENCES: Final = {_CLAIM: _TEMPLATE, _TEMPLATE: _CLAIM}
#: Another namespace of the same author.
_OTHER_NAMESPACE: Final = "ml-dev"
_AFFINITY: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _entry(world: World) -> Tree:
    entries = world.pod["spec"].get("resourceClaims")
    if not entries:
        raise Inapplicable
    entry: Tree = entries[0]
    return entry


def _wrong_reference(random: Random, world: World) -> World:
    entry = _entry(world)
    field = next(field for field in _REFERENCES if field in entry)
    entry[_REFERENCES[field]] = entry.pop(field)
    return world


def _misspelled_reference(random: Random, world: World) -> World:
    entry = _entry(world)
    field = next(field for field in _REFERENCES if field in entry)
    entry[field] = misspelled(random, entry[field])
    return world


def _elsewhere(random: Random, world: World) -> World:
    _entry(world)
    owner = world.request_owner
    if owner is None:
        raise Inapplicable
    owner["metadata"]["namespace"] = _OTHER_NAMESPACE
    return world


def _selector_value(random: Random, world: World) -> World:
    selector = world.pod["spec"].get("nodeSelector")
    if not selector:
        raise Inapplicable
    key, value = next(iter(selector.items()))
    others = [value.replace("-", "_"), value.lower(), misspelled(random, value)]
    selector[key] = random.choice([other for other in others if other != value])
    return world


def _selector_key(random: Random, world: World) -> World:
    selector = world.pod["spec"].get("nodeSelector")
    if not selector:
        raise Inapplicable
    key = next(iter(selector))
    selector[misspelled(random, key)] = selector.pop(key)
    return world


def _affinity(random: Random, world: World) -> World:
    """Required node affinity with a misspelled value of a label of the nodes with the devices."""
    labels = [tree["metadata"]["labels"] for tree in world.of_kind("Node")]
    own = next(found for found in labels if found[POOL_LABEL] == world.pool)
    key = random.choice([key for key in (POOL_LABEL, PRODUCT_LABEL) if key in own])
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [misspelled(random, own[key])]}]}
    world.pod["spec"].pop("nodeSelector", None)
    world.pod["spec"]["affinity"] = {"nodeAffinity": {_AFFINITY: {"nodeSelectorTerms": [term]}}}
    return world


def _limits(world: World) -> Tree:
    limits = world.pod["spec"]["containers"][0]["resources"].get("limits")
    if not limits:
        raise Inapplicable
    found: Tree = limits
    return found


def _too_many(random: Random, world: World) -> World:
    most = 0
    for tree in world.of_kind("ResourceSlice"):
        devices = tree["spec"].get("devices") or ()
        most = max(most, sum(attribute(device, "type") == "gpu" for device in devices))
    _limits(world)[EXTENDED_RESOURCE] = str(most + 1)
    return world


def _misspelled_resource(random: Random, world: World) -> World:
    limits = _limits(world)
    wrong = random.choice([f"{EXTENDED_RESOURCE}s", "nvidia.com/gup", "nvdia.com/gpu"])
    limits[wrong] = limits.pop(EXTENDED_RESOURCE)
    return world


_ALL: Final = frozenset(STYLES)
_WITH_CLAIM: Final = _ALL - {"extended"}
_MISSING: Final = frozenset({"claim-missing", "template-missing"})
_EXCLUDED: Final = frozenset({"node-not-eligible"})
#: A wrong value may name nodes with other hardware.
_SELECT: Final = frozenset({"select", "select-model"})

#: Mistakes in the reference to the claim: of two, none of the names in the pod would be right.
REFERENCES: Final = frozenset({"claim for template", "reference misspelled", "claim in another namespace"})
POD_MISTAKES: Final = (
    Mistake("claim for template", _WITH_CLAIM, _wrong_reference, _MISSING, frozenset({"name", "correction"})),
    Mistake("reference misspelled", _WITH_CLAIM, _misspelled_reference, _MISSING, frozenset({"name", "correction"})),
    Mistake(
        "claim in another namespace", _WITH_CLAIM - {"admin"}, _elsewhere, frozenset({"wrong-namespace"}),
        frozenset({"name", "correction"}), hidden=_MISSING | {"wrong-namespace"},
    ),
    Mistake("wrong value in nodeSelector", _ALL, _selector_value, _EXCLUDED, _SELECT),
    Mistake("misspelled key in nodeSelector", _ALL, _selector_key, _EXCLUDED, frozenset({"select"})),
    Mistake("wrong value in node affinity", _ALL, _affinity, _EXCLUDED, _SELECT),
    Mistake(
        "extended resource larger than any node", frozenset({"extended"}), _too_many,
        frozenset({"too-few-devices", "extended-resource-missing"}), frozenset({"less"}),
    ),
    Mistake(
        "extended resource misspelled", frozenset({"extended"}), _misspelled_resource,
        frozenset({"extended-resource-missing"}), frozenset({"name", "correction"}),
    ),
)  # fmt: skip
