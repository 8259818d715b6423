"""Fills every text field of every kept kind with a unique word, and compares the words that remain with a list."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from allotment.model.fields import TypeShape, shape_of, versions_of
from allotment.tools.redact import redacted
from allotment.tools.redact.objects import _KINDS as KINDS

#: Keys of labels and annotations, kinds of owners, names of resources; {} is a key of a map, [] an item of a list.
_KEPT = r"""
    .*metadata\.(uid|labels\{\}|annotations\{\}|ownerReferences\[\]\.(apiVersion|kind|uid))
    .*\.(effect|operator|key|topologyKey|(mis)?matchLabelKeys\[\]|matchLabels\{\}|nodeSelector\{\}|selector\{\})
    .*\.(limits|requests|capacity|allocatable|overhead)\{\}
    .*[cC]onditions\[\]\.(type|status|reason)
    .*\.spec\.topologySpreadConstraints\[\]\.(whenUnsatisfiable|nodeAffinityPolicy|nodeTaintsPolicy)
    .*\.(initContainers|containers)\[\]\.(restartPolicy|ports\[\]\.protocol)
    .*\.claims\[\]\.(name|request)
    .*\.(restartPolicy|preemptionPolicy|schedulerName|schedulingGates\[\]\.name|os\.name|concurrencyPolicy)
    .*\.(completionMode|podManagementPolicy|schedule)
    .*\.resourceClaims\[\]\.name
    Pod\.status\.(phase|qosClass|reason|resourceClaimStatuses\[\]\.name)
    Pod\.status\..*\.(health|waiting\.reason|requestName|resourceName)
    Pod\.status\.(.*\.)?allocatedResources\{\}
    PodGroup\.status\.resourceClaimStatuses\[\]\.name
    PodGroup\.spec\.disruptionMode
    Namespace\.status\.phase
    Node\.status\.(declaredFeatures\[\]|nodeInfo\.(architecture|kubeletVersion|operatingSystem))
    Event\.(action|reason|type|reportingComponent|source\.component|involvedObject\.(apiVersion|kind|uid))
    DeviceClass\.(metadata\.name|spec\.extendedResourceName)
    .*\.cel\.expression
    .*\.config\[\]\.(opaque\.(driver|parameters\.kind)|requests\[\]|source)
    .*\.constraints\[\]\.(distinctAttribute|matchAttribute|requests\[\])
    ResourceClaim.*\.requests\[\]\.(.*\.)?(allocationMode|deviceClassName|name|tolerations\[\]\.value)
    ResourceClaim\.status\..*\.(device|driver|request|shareID|tolerations\[\]\.value)
    ResourceClaim\.status\..*\.(binding(Failure)?Conditions\[\]|consumedCapacity\{\})
    ResourceClaim\.status\.reservedFor\[\]\.(apiGroup|resource|uid)
    DeviceTaintRule\.spec\.(deviceSelector\.(device|driver)|taint\.value)
    ResourceSlice\.spec\.(driver|partitionTypeAttribute)
    .*\.(skipNodeOperations\[\]|derivedAttributes\[\]\.(name|expression))
    ResourceClaim.*\.controller
    ResourceSlice\.spec\.(devices|sharedCounters)\[\]\.(?!.*(nodeName|values\[\])$).*
"""
_LISTED = re.compile("|".join(f"(?:{line.strip()})" for line in _KEPT.strip().splitlines()))


def planted(shape: TypeShape, path: str, words: dict[str, str], above: tuple[str, ...] = ()) -> Any:
    """A value with every field filled; ``words`` maps each text to its path."""
    if shape.form == "struct":
        if above.count(shape.name) > 1:
            return None
        inner = {
            name: planted(field.shape, f"{path}.{name}", words, (*above, shape.name))
            for name, field in shape.fields.items()
        }
        return {name: value for name, value in inner.items() if value is not None}
    if shape.form in ("slice", "map"):
        assert shape.element is not None
        sign = "[]" if shape.form == "slice" else "{}"
        value = planted(shape.element, f"{path}{sign}", words, above)
        if shape.form == "slice":
            return [] if value is None else [value]
        return {} if value is None else {_word(f"{path}{{}}", words): value}
    plain = {"bool": True, "int32": 1, "int64": 1, "Quantity": "1"}
    if shape.form in plain:
        return plain[shape.form]
    if shape.form in ("Time", "MicroTime"):
        return "2026-01-01T00:00:00Z"
    word = _word(path, words)
    return word if shape.form == "string" else {"kind": _word(f"{path}.kind", words), word: word}


def _word(path: str, words: dict[str, str]) -> str:
    word = f"zq{len(words)}z"
    words[word] = path
    return word


@pytest.mark.parametrize(("version", "kind"), [(version, kind) for kind in KINDS for version in versions_of(kind)])
def test_kept_fields_are_listed(version: str, kind: str) -> None:
    shape = shape_of(version, kind)
    assert shape is not None
    words: dict[str, str] = {}
    tree = planted(shape, kind, words) | {"apiVersion": version, "kind": kind}
    text = json.dumps(redacted([tree]))
    stays = {path for word, path in words.items() if re.search(rf"\b{word}\b", text)}
    assert f"{kind}.metadata.namespace" not in stays
    assert sorted(path for path in stays if not _LISTED.fullmatch(path)) == []
