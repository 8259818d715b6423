"""Compares Allotment's answers with the recorded ones: codes, headers that clients read, bodies except for expected
differences."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from allotment.model.trees import Tree
from tests.vectors.apiserver.masking import masked

#: Groups of the recorded server that are not part of Kubernetes.
_FOREIGN = ("openshift", "system:openshift")


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


def _without_controller_fields(tree: Any) -> Any:
    """A workload, or its row in a table, without the fields that its controllers write."""
    if isinstance(tree, dict) and tree.get("kind") == "Table":
        return {**tree, "rows": [_row_without_controller_fields(row) for row in tree.get("rows") or ()]}
    if not isinstance(tree, dict) or tree.get("kind") not in _WORKLOADS:
        return tree
    meta = dict(tree["metadata"])
    meta["managedFields"] = [e for e in meta.get("managedFields") or () if e["manager"] != "kube-controller-manager"]
    if "annotations" in meta:
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key != _REVISION}
    return {**{key: item for key, item in tree.items() if key != "status"}, "metadata": meta}


def _row_without_controller_fields(row: Tree) -> Tree:
    meta = (row.get("object") or {}).get("metadata") or {}
    if not any(entry["manager"] == "kube-controller-manager" for entry in meta.get("managedFields") or ()):
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
    """Groups that are not served may be absent; those that are served are described as recorded."""
    recorded, actual = (
        _without(tree, ("storageVersionHash", "serverAddressByClientCIDRs")) for tree in (recorded, actual)
    )
    for key, name in (("groups", lambda item: item["name"]), ("items", lambda item: item["metadata"].get("name", ""))):
        if isinstance(recorded.get(key), list) and isinstance(actual.get(key), list):
            return _groups(recorded, actual, key, name)
    if isinstance(recorded.get("paths"), list):
        extra = [path for path in actual.get("paths", ()) if path not in recorded["paths"]]
        return f"unknown paths: {extra}" if extra else ""
    if isinstance(recorded.get("resources"), list) and isinstance(actual.get("resources"), list):
        recorded, actual = ({**t, "resources": {r["name"]: r for r in t["resources"]}} for t in (recorded, actual))
    return difference(recorded, actual)


def _groups(recorded: Tree, actual: Tree, key: str, name: Callable[[Tree], str]) -> str:
    known = {name(item): item for item in recorded[key]}
    for item in actual[key]:
        if name(item) not in known:
            return f"{key}: {name(item)!r} is not known to Kubernetes"
        expected = _served(known[name(item)], item)
        if found := difference(_by_name(expected), _by_name(item), f"{key}[{name(item)}]"):
            return found
    return ""


def _served(group: Tree, actual: Tree) -> Tree:
    """A recorded group with the versions that the lab serves."""
    served = [version["version"] for version in actual["versions"]]
    kept = {**group, "versions": [version for version in group["versions"] if version["version"] in served]}
    if "preferredVersion" in kept and kept["preferredVersion"]["version"] not in served:
        kept["preferredVersion"] = kept["versions"][0] if kept["versions"] else None
    return kept


def _by_name(group: Tree) -> Tree:
    return {
        **group,
        "versions": [
            {**version, "resources": {r["resource"]: _by_subresource(r) for r in version["resources"]}}
            if "resources" in version
            else version
            for version in group["versions"]
        ],
    }


def _by_subresource(resource: Tree) -> Tree:
    if "subresources" not in resource:
        return resource
    return {**resource, "subresources": {sub["subresource"]: sub for sub in resource["subresources"]}}


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
    wanted_headers = recorded.get("headers") or {}
    for name in ("content-type", "warning", "location", "vary"):
        if name == "content-type" and name not in wanted_headers:
            continue
        expected, given = wanted_headers.get(name), headers.get(name)
        if isinstance(expected, list):
            expected = ", ".join(expected)
        if name == "location":
            expected, given = (text and text.partition("?")[0] for text in (expected, given))
        if name == "vary" and not is_discovery(path) and not path.startswith("/openapi"):
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
