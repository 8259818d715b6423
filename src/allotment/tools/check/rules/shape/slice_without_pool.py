"""S111: slices that do not specify their pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.model.editing.edits import SetValue
from allotment.model.loading import Document
from allotment.phrases import listed
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import is_dra, mapping, text


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Slices without a pool, and those whose pool lacks its name or the number of its slices."""
    for document in bundle.documents:
        spec = document.tree.get("spec")
        if not is_dra(document) or document.kind != "ResourceSlice" or not isinstance(spec, dict):
            continue
        pool = spec.get("pool")
        if pool is not None and not isinstance(pool, dict):
            continue
        missing = [name for name in ("name", "resourceSliceCount") if name not in mapping(pool)]
        if not missing:
            continue
        has_no_pool = not pool
        field = (
            "pool"
            if has_no_pool
            else f"pool.{missing[0]}"
            if len(missing) == 1
            else "pool.name and no pool.resourceSliceCount"
        )
        yield RuleMatch(
            document,
            ("spec",) if pool is None else ("spec", "pool"),
            f"a ResourceSlice belongs to a pool, but this one has no {field}",
            help="" if _pool(bundle, spec) else "set pool.name and pool.resourceSliceCount",
            fix=_fix(bundle, document, spec, missing),
            at_key=True,
        )


def _fix(bundle: Bundle, document: Document, spec: dict[str, Any], missing: list[str]) -> Fix | None:
    pool = _pool(bundle, spec)
    if not pool:
        return None
    if not spec.get("pool"):
        after = next((name for name in ("driver", "nodeName") if name in spec), None)
        edits = [SetValue(("spec", "pool"), pool, after=after)]
        description = f'add it to pool "{pool["name"]}", generation 1, with {_slices(pool["resourceSliceCount"])}'
    else:
        edits = [SetValue(("spec", "pool", name), pool[name]) for name in missing]
        description = "write " + listed([f"{name}: {pool[name]}" for name in missing])
    return Fix(description, tuple((document, edit) for edit in edits), safe=False)


def _slices(count: int) -> str:
    return "1 slice" if count == 1 else f"{count} slices"


def _pool(bundle: Bundle, spec: dict[str, Any]) -> dict[str, Any]:
    """The pool of a node's devices, which drivers name after the node. Empty if the devices span several nodes."""
    node, driver = text(spec.get("nodeName")), text(spec.get("driver"))
    if not node:
        return {}
    slices = {
        document.name
        for document in bundle.documents
        if is_dra(document)
        and document.kind == "ResourceSlice"
        and mapping(document.tree.get("spec")).get("nodeName") == node
        and mapping(document.tree.get("spec")).get("driver") == driver
    }
    return {"name": node, "generation": 1, "resourceSliceCount": len(slices)}


_BAD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: worker-2-gpu.example.com
spec:
  driver: gpu.example.com
  nodeName: worker-2
  devices:
  - name: gpu-0
"""

_GOOD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: worker-2-gpu.example.com
spec:
  driver: gpu.example.com
  pool:
    name: worker-2
    generation: 1
    resourceSliceCount: 1
  nodeName: worker-2
  devices:
  - name: gpu-0
"""

RULE = Rule(
    code="S111",
    name="slice-without-pool",
    family="shape",
    level="error",
    summary="a ResourceSlice does not specify its pool",
    why=(
        "A driver publishes its devices in pools of one or more slices. The scheduler uses a pool only if the "
        "number of slices of the highest generation equals resourceSliceCount (KEP-4381), so every slice needs "
        "pool.name and a count above zero; otherwise the API server rejects it. Drivers usually name a pool "
        "after the node."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
