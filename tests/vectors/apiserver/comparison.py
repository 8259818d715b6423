"""Compares Allotment's answers with the recorded ones: codes, headers that clients read, bodies except for expected
differences."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from allotment.apiserver.built_in_kinds import NOT_SERVED
from allotment.model.trees import Tree
from tests.vectors.apiserver.masking import masked

#: Groups of the recorded server that are not part of Kubernetes.
_FOREIGN = ("openshift", "system:openshift")
#: Groups that a lab serves, and a control plane only with another API server, metrics-server.
_ADDED = frozenset({"metrics.k8s.io"})


def difference(recorded: Any, actual: Any, where: str = "") -> str:
    """The first difference between two masked trees, as text; empty when they are equal."""
    if isinstance(recorded, dict) and isinstance(actual, dict):
        for key in sorted({*recorded, *actual}, key=str):
            if key not in actual:
                return f"{where}.{key}: missing, expected {_short(recorded[key])}"
            if key not in recorded:
                return f"{where}.{key}: unexpected {_short(actual[key])}"
            if found := difference(recorded[key], actual[key], f"{where}.{key}"):
                return found
        return ""
    if isinstance(recorded, list) and isinstance(actual, list):
        for index, (expected, other) in enumerate(zip(recorded, actual, strict=False)):
            if found := difference(expected, other, f"{where}[{index}]"):
                return found
        if len(recorded) != len(actual):
            longer = recorded if len(recorded) > len(actual) else actual
            word = "missing" if longer is recorded else "unexpected"
            return (
                f"{where}[{min(len(recorded), len(actual))}]: {word}, {_short(longer[min(len(recorded), len(actual))])}"
            )
        return ""
    if type(recorded) is type(actual) and recorded == actual:
        return ""
    return f"{where}: expected {_short(recorded)}, found {_short(actual)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 700 else text[:700] + "…"


def body_difference(path: str, recorded: Any, actual: Any) -> str:
    """The difference between whole bodies, according to their content."""
    for prefix, compare in _BY_PATH:
        if path.startswith(prefix) and isinstance(recorded, dict) and recorded.get("kind") != "Status":
            return compare(recorded, actual)
    recorded, actual = _unordered(_without_foreign(recorded)), _unordered(_without_foreign(actual))
    if (
        isinstance(recorded, dict)
        and isinstance(actual, dict)
        and recorded.get("kind") == actual.get("kind") == "Table"
    ):
        actual = _recorded_columns(recorded, actual)
    if _is_new_job(recorded) and isinstance(actual, dict):
        actual = _without_controllers(actual)
    return difference(masked(_without_controller_fields(recorded)), masked(_without_controller_fields(actual)))


def _unordered(tree: Any) -> Any:
    """Sort the conflicts of a rejection: upstream iterates over a map of managers."""
    if not isinstance(tree, dict) or "FieldManagerConflict" not in json.dumps(tree.get("details") or {}):
        return tree
    details = {**tree["details"], "causes": sorted(tree["details"]["causes"], key=json.dumps)}
    return {**tree, "details": details, "message": sorted(tree["message"].replace(":", "\n").split("\n"))}


#: Controllers change workloads after every write: how far they had come is a race in every recording.
_WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})
_REVISION = "deployment.kubernetes.io/revision"
_CONTROLLERS = frozenset({"kube-controller-manager", "device-taint-eviction-controller"})


def _without_controller_fields(tree: Any) -> Any:
    """A workload, or its row in a table, without the fields that its controllers write."""
    if isinstance(tree, dict) and tree.get("kind") == "Table":
        return {**tree, "rows": [_row_without_controller_fields(row) for row in tree.get("rows") or ()]}
    if isinstance(tree, dict) and isinstance(tree.get("items"), list):
        return {**tree, "items": [_rule_without_progress(item) for item in tree["items"]]}
    if isinstance(tree, dict) and tree.get("kind") == "DeviceTaintRule":
        return _rule_without_progress(tree)
    if not isinstance(tree, dict) or tree.get("kind") not in _WORKLOADS:
        return tree
    tree = _without_controllers(tree)
    meta = tree["metadata"]
    if "annotations" in meta:
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key != _REVISION}
    return {key: item for key, item in tree.items() if key != "status"}


def _is_new_job(tree: Any) -> bool:
    """Whether this is a Job that its controller had not seen when it was recorded."""
    if not isinstance(tree, dict) or tree.get("kind") != "Job" or tree.get("status"):
        return False
    return all(entry["manager"] not in _CONTROLLERS for entry in tree["metadata"].get("managedFields") or ())


def _without_controllers(tree: Tree) -> Tree:
    """An object as it was before a controller wrote its status."""
    meta = {**tree["metadata"], "managedFields": _of_others(tree["metadata"])}
    return {**tree, "metadata": meta, **({"status": {}} if "status" in tree else {})}


def _rule_without_progress(tree: Tree) -> Tree:
    """A taint rule without the condition that its controller writes; other objects are unchanged."""
    if "taint" not in (tree.get("spec") or {}):
        return tree
    meta = {**tree["metadata"], "managedFields": _of_others(tree["metadata"])}
    status: Tree = tree.get("status") or {}
    conditions = [c for c in status.get("conditions") or () if c["type"] != "EvictionInProgress"]
    rest = {key: item for key, item in tree.items() if key != "status"}
    return {**rest, "metadata": meta, **({"status": {**status, "conditions": conditions}} if conditions else {})}


def _of_others(meta: Tree) -> list[Any]:
    """The managed fields of an object without those of controllers."""
    return [entry for entry in meta.get("managedFields") or () if entry["manager"] not in _CONTROLLERS]


def _row_without_controller_fields(row: Tree) -> Tree:
    meta = (row.get("object") or {}).get("metadata") or {}
    if not any(entry["manager"] in _CONTROLLERS for entry in meta.get("managedFields") or ()):
        return row
    return {
        **row,
        "object": {
            **row["object"],
            "metadata": _without_controller_fields({"kind": "ReplicaSet", "metadata": meta})["metadata"],
        },
    }


def _without_foreign(tree: Any) -> Any:
    """A list or table without foreign entries."""
    if not isinstance(tree, dict):
        return tree
    for key in ("items", "rows"):
        if isinstance(tree.get(key), list):
            kept = [item for item in tree[key] if not _name(item).startswith(_FOREIGN)]
            if len(kept) != len(tree[key]):
                tree = {**tree, key: kept}
    return tree


def _name(item: Tree) -> str:
    if "cells" in item:
        return str(item["cells"][0])
    return str((item.get("metadata") or {}).get("name", ""))


def _recorded_columns(recorded: Tree, actual: Tree) -> Tree:
    """Allotment's table reduced to the recorded columns: further columns may follow, also in wide output."""
    if not actual.get("columnDefinitions"):
        return actual
    names = [column["name"] for column in actual["columnDefinitions"]]
    places = [names.index(column["name"]) for column in recorded["columnDefinitions"] if column["name"] in names]
    if places != sorted(places):
        return actual
    return {
        **actual,
        "columnDefinitions": [actual["columnDefinitions"][plane] for plane in places],
        "rows": [{**row, "cells": [row["cells"][plane] for plane in places]} for row in actual.get("rows") or ()],
    }


# --- descriptions of the server
# ----------------------------------------------------------------------------------------


def _without(tree: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(tree, dict):
        return {key: _without(item, keys) for key, item in tree.items() if key not in keys}
    return [_without(item, keys) for item in tree] if isinstance(tree, list) else tree


def _discovery(recorded: Any, actual: Any) -> str:
    """What is served is described as recorded, but for what a lab does not have by intention."""
    recorded, actual = (_without(tree, ("serverAddressByClientCIDRs",)) for tree in (recorded, actual))
    for key, name in (("groups", lambda item: item["name"]), ("items", lambda item: item["metadata"].get("name", ""))):
        if isinstance(recorded.get(key), list) and isinstance(actual.get(key), list):
            return _groups(recorded, actual, key, name)
    if isinstance(recorded.get("paths"), list):
        extra = [
            path
            for path in actual.get("paths", ())
            if path not in recorded["paths"] and path.removeprefix("/apis/").partition("/")[0] not in _ADDED
        ]
        return f"unknown paths: {extra}" if extra else ""
    if isinstance(recorded.get("resources"), list) and isinstance(actual.get("resources"), list):
        group = recorded["groupVersion"].rpartition("/")[0]
        kept = [resource for resource in recorded["resources"] if not _is_missing(group, resource["name"])]
        recorded, actual = (
            {**recorded, "resources": {resource["name"]: resource for resource in kept}},
            {**actual, "resources": {resource["name"]: resource for resource in actual["resources"]}},
        )
    return difference(recorded, actual)


def _is_missing(group: str, name: str) -> bool:
    """Whether a lab does not have a resource, or all resources of a group."""
    bucket = ".".join(filter(None, (name, group)))
    return bucket in NOT_SERVED if name else any(missing.endswith(f".{group}") for missing in NOT_SERVED)


def _groups(recorded: Tree, actual: Tree, key: str, name: Callable[[Tree], str]) -> str:
    known = {name(item): item for item in recorded[key] if not (name(item) and _is_missing(name(item), ""))}
    expected = {group: _by_name(group, item) for group, item in known.items()}
    found = {name(item): _by_name(name(item), item) for item in actual[key] if name(item) not in _ADDED - set(expected)}
    return difference(expected, found, key)


def _by_name(group: str, item: Tree) -> Tree:
    """A group with its resources by name, without those that a lab does not have."""
    versions = [
        {
            **version,
            "resources": {
                resource["resource"]: _by_subresource(group, resource)
                for resource in version["resources"]
                if not _is_missing(group, resource["resource"])
            },
        }
        if "resources" in version
        else version
        for version in item["versions"]
    ]
    return {**item, "versions": versions}


def _by_subresource(group: str, resource: Tree) -> Tree:
    if "subresources" not in resource:
        return resource
    kept = {
        sub["subresource"]: sub
        for sub in resource["subresources"]
        if not _is_missing(group, f"{resource['resource']}/{sub['subresource']}")
    }
    return {**resource, "subresources": kept}


def _openapi(recorded: Any, actual: Any) -> str:
    """Every existing schema has the recorded fields, types and list rules; descriptions are not compared."""
    if "paths" in recorded and "components" not in recorded:  # the index
        return (
            ""
            if actual.get("paths") and all("serverRelativeURL" in e for e in actual["paths"].values())
            else "no index"
        )
    expected = recorded.get("components", {}).get("schemas", {})
    found = actual.get("components", {}).get("schemas", {})
    if expected and not found:
        return "no schemas"
    for name in sorted(found):
        if name in expected and (detail := difference(_shape(expected[name]), _shape(found[name]), f"schemas[{name}]")):
            return detail
    missing = [p for p in recorded.get("paths", {}) if "/watch/" not in p and p not in actual.get("paths", {})]
    return f"paths missing: {missing}" if missing else ""


def _shape(schema: Any) -> Any:
    """The parts of a schema that clients use: its fields and their types, and the rules of its lists."""
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k in ("type", "format", "required") or k.startswith("x-kubernetes-")}
    kept.pop("x-kubernetes-group-version-kind", None)
    kept.pop("x-kubernetes-unions", None)
    if "required" in kept:
        kept["required"] = sorted(kept["required"])
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = _shape(schema[key])
    if "properties" in schema:
        kept["properties"] = {name: _shape(field) for name, field in schema["properties"].items()}
    return kept


def _version(recorded: Any, actual: Any) -> str:
    return (
        "" if set(actual) >= {"major", "minor", "gitVersion"} and actual["minor"] == recorded["minor"] else str(actual)
    )


def _issuer(recorded: Any, actual: Any) -> str:
    return difference(sorted(recorded), sorted(actual))


_BY_PATH: tuple[tuple[str, Callable[[Any, Any], str]], ...] = (
    ("/openapi/", _openapi),
    ("/version", _version),
    ("/.well-known/", _issuer),
)


def is_discovery(path: str) -> bool:
    """Whether a path queries the served resources."""
    parts = path.partition("?")[0].strip("/").split("/")
    return (
        parts in ([""], ["api"], ["apis"])
        or (parts[0] == "api" and len(parts) == 2)
        or (parts[0] == "apis" and len(parts) <= 3)
    )


def answer_difference(path: str, recorded: Tree, code: int, headers: Tree, body: bytes) -> str:
    """The difference between a whole answer and a recorded one: code, content type and warnings, body."""
    if recorded["code"] != code:
        found = body[:700].decode(errors="replace")
        return f"expected code {recorded['code']}, found {code}: {found} (expected {_short(recorded.get('body'))})"
    wanted_headers = {name.lower(): value for name, value in (recorded.get("headers") or {}).items()}
    for name in ("content-type", "warning", "location", "vary"):
        if name == "content-type" and name not in wanted_headers:
            continue
        expected, given = wanted_headers.get(name), headers.get(name)
        if isinstance(expected, list):
            expected = ", ".join(expected)
        if name == "location":
            expected, given = (text and text.partition("?")[0] for text in (expected, given))
        # Not every recording has this header.
        if name == "vary" and not (name in wanted_headers and (is_discovery(path) or path.startswith("/openapi"))):
            continue
        if expected != given and not (name == "content-type" and path.startswith("/openapi/v3")):
            return f"header {name}: expected {expected!r}, found {given!r}"
    if "body" in recorded:
        try:
            actual = json.loads(body)
        except ValueError:
            return f"body: expected JSON, found {body[:200]!r}"
        if is_discovery(path) and isinstance(recorded["body"], dict) and recorded["body"].get("kind") != "Status":
            return _discovery(recorded["body"], actual)
        return body_difference(path, recorded["body"], actual)
    if "body_text" in recorded and recorded["body_text"].strip():
        return text_difference(str(recorded["body_text"]), body.decode(errors="replace"))
    return ""


def text_difference(recorded: str, actual: str) -> str:
    """Texts: equal after masking, or the same list of checks."""
    if "[+]" in recorded:
        return "" if "[+]ping ok" in actual and actual.splitlines()[-1] == recorded.splitlines()[-1] else actual
    # YAML quotes a uid that could be read as a number.
    return difference(*(str(masked(text)).strip().replace('"UID"', "UID") for text in (recorded, actual)))
