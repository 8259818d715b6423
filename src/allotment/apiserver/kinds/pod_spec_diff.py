"""A pod's spec as the API server's internal Go type prints it, and how two of them differ.

The message about a forbidden change of a pod ends with a unified diff of that text, and tools and people read it. Which
fields there are, in which order and under which name is data (``data/pod_spec.json``, made by ``scripts/internal``).
Only refusals come here, so nothing is precomputed.
"""

from __future__ import annotations

import difflib
import functools
import json
from importlib import resources
from typing import Any, Final

import msgspec

from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation.gotext import GoStruct

#: What Go prints of a value that is not set; of slices and maps null.
_ZERO: Final[dict[str, Any]] = {"string": "", "number": 0, "bool": False, "value": "0"}
#: Internally a pod's use of the host's namespaces is part of its security context.
_IN_SECURITY_CONTEXT: Final = {
    "HostNetwork": "hostNetwork", "HostPID": "hostPID", "HostIPC": "hostIPC",
    "ShareProcessNamespace": "shareProcessNamespace", "HostUsers": "hostUsers",
}  # fmt: skip
_QUANTITIES: Final = frozenset({"requests", "limits", "overhead"})
_HTML: Final = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})


@functools.cache
def _types() -> list[list[Any]]:
    data = resources.files("allotment.apiserver.kinds").joinpath("data/pod_spec.json").read_bytes()
    return msgspec.json.decode(data, type=list[list[Any]])


def pod_spec_text(spec: Tree) -> str:
    """``json.MarshalIndent`` of the internal PodSpec."""
    return json.dumps(_shown(0, _shared(spec), ""), indent=1, ensure_ascii=False).translate(_HTML)


def pod_template_value(template: Tree) -> Tree:
    """An internal PodTemplateSpec, as messages show it."""
    meta = template.get("metadata") or {}
    shown = {name: meta[name] for name in ("name", "labels", "annotations", "finalizers") if meta.get(name)}
    return GoStruct(**shown, Spec=_shown(0, _shared(template.get("spec") or {}), ""))


def _shared(spec: Tree) -> Tree:
    shared = {name: spec[name] for name in _IN_SECURITY_CONTEXT.values() if spec.get(name) is not None}
    context = spec.get("securityContext")
    if context is None and not shared:
        return spec
    return {**spec, "securityContext": {**(context or {}), **shared}}


def _shown(number: int, value: Any, name: str) -> Any:
    form, *rest = _types()[number]
    if form == "struct":
        shown = GoStruct()
        for field in rest[0]:
            _put(shown, field, value if isinstance(value, dict) else {})
        return shown
    if form == "pointer":
        return None if value is None else _shown(rest[0], value, name)
    if not value:
        return _ZERO.get(form)
    if form == "slice":
        return [_shown(rest[0], item, "") for item in value] if isinstance(value, list) else value
    if form == "map":
        return {key: _shown(rest[0], value[key], name) for key in sorted(value)}
    if form == "value" and name in _QUANTITIES:
        return str(Quantity.parse(str(value)))
    return value


def _put(shown: Tree, field: list[Any], value: Tree) -> None:
    go_name, name, number, embedded = field
    if embedded:
        shown.update(_shown(number, value, ""))
        return
    name = name or _IN_SECURITY_CONTEXT.get(go_name, "")
    shown[go_name] = _shown(number, value.get(name), name)


def difference(old: str, new: str) -> str:
    """The unified diff of two texts, without the names of files."""
    lines = difflib.unified_diff(
        [f"{line}\n" for line in old.split("\n")], [f"{line}\n" for line in new.split("\n")], n=3
    )
    return "".join(line for line in lines if not line.startswith(("---", "+++")))
