"""Whether our answer is the recorded one: codes, headers that clients read, bodies up to what may differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from allotment.model.trees import Tree
from tests.vectors.apiserver.masking import masked

#: Leftovers of the recorded server that no Kubernetes has.
_FOREIGN = ("openshift", "system:openshift")


def difference(recorded: Any, ours: Any, where: str = "") -> str:
    """The first place where two masked trees differ, in words; empty when they are equal."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in sorted({*recorded, *ours}, key=str):
            if key not in ours:
                return f"{where}.{key}: missing, wanted {_short(recorded[key])}"
            if key not in recorded:
                return f"{where}.{key}: not wanted, found {_short(ours[key])}"
            if found := difference(recorded[key], ours[key], f"{where}.{key}"):
                return found
        return ""
    if isinstance(recorded, list) and isinstance(ours, list):
        for index, (one, other) in enumerate(zip(recorded, ours, strict=False)):
            if found := difference(one, other, f"{where}[{index}]"):
                return found
        if len(recorded) != len(ours):
            longer = recorded if len(recorded) > len(ours) else ours
            word = "missing" if longer is recorded else "not wanted"
            return f"{where}[{min(len(recorded), len(ours))}]: {word}, {_short(longer[min(len(recorded), len(ours))])}"
        return ""
    if type(recorded) is type(ours) and recorded == ours:
        return ""
    return f"{where}: wanted {_short(recorded)}, found {_short(ours)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 700 else text[:700] + "…"


def body_difference(path: str, recorded: Any, ours: Any) -> str:
    """How a whole body differs, by what it is."""
    for prefix, compare in _BY_PATH:
        if path.startswith(prefix) and isinstance(recorded, dict) and recorded.get("kind") != "Status":
            return compare(recorded, ours)
    recorded, ours = _unordered(_own(recorded)), _unordered(_own(ours))
    if isinstance(recorded, dict) and isinstance(ours, dict) and recorded.get("kind") == ours.get("kind") == "Table":
        ours = _recorded_columns(recorded, ours)
    return difference(masked(_still(recorded)), masked(_still(ours)))


def _unordered(tree: Any) -> Any:
    """A refusal whose conflicts stand in any order: upstream ranges over a map of managers."""
    if not isinstance(tree, dict) or "FieldManagerConflict" not in json.dumps(tree.get("details") or {}):
        return tree
    details = {**tree["details"], "causes": sorted(tree["details"]["causes"], key=json.dumps)}
    return {**tree, "details": details, "message": sorted(tree["message"].replace(":", "\n").split("\n"))}


#: Workloads change by themselves after every write: how far that had come is a race in every recording.
_MOVING = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})
_REVISION = "deployment.kubernetes.io/revision"


def _still(tree: Any) -> Any:
    """A workload, or the row of one in a table, without what its controllers write."""
    if isinstance(tree, dict) and tree.get("kind") == "Table":
        return {**tree, "rows": [_still_row(row) for row in tree.get("rows") or ()]}
    if not isinstance(tree, dict) or tree.get("kind") not in _MOVING:
        return tree
    meta = dict(tree["metadata"])
    meta["managedFields"] = [e for e in meta.get("managedFields") or () if e["manager"] != "kube-controller-manager"]
    if "annotations" in meta:
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key != _REVISION}
    return {**{key: item for key, item in tree.items() if key != "status"}, "metadata": meta}


def _still_row(row: Tree) -> Tree:
    meta = (row.get("object") or {}).get("metadata") or {}
    if not any(entry["manager"] == "kube-controller-manager" for entry in meta.get("managedFields") or ()):
        return row
    return {
        **row,
        "object": {**row["object"], "metadata": _still({"kind": "ReplicaSet", "metadata": meta})["metadata"]},
    }


def _own(tree: Any) -> Any:
    """A list or table without what is foreign to it."""
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


def _recorded_columns(recorded: Tree, ours: Tree) -> Tree:
    """Our table reduced to the recorded columns: more of them may stand behind, or under wide."""
    if not ours.get("columnDefinitions"):
        return ours
    names = [column["name"] for column in ours["columnDefinitions"]]
    places = [names.index(column["name"]) for column in recorded["columnDefinitions"] if column["name"] in names]
    if places != sorted(places):
        return ours
    return {
        **ours,
        "columnDefinitions": [ours["columnDefinitions"][place] for place in places],
        "rows": [{**row, "cells": [row["cells"][place] for place in places]} for row in ours.get("rows") or ()],
    }


# --- what the server says of itself ----------------------------------------------------------------------------------


def _without(tree: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(tree, dict):
        return {key: _without(item, keys) for key, item in tree.items() if key not in keys}
    return [_without(item, keys) for item in tree] if isinstance(tree, list) else tree


def _discovery(recorded: Any, ours: Any) -> str:
    """Groups that are not served may be absent; what is served is described as recorded."""
    recorded, ours = (_without(tree, ("storageVersionHash", "serverAddressByClientCIDRs")) for tree in (recorded, ours))
    for key, name in (("groups", lambda item: item["name"]), ("items", lambda item: item["metadata"].get("name", ""))):
        if isinstance(recorded.get(key), list) and isinstance(ours.get(key), list):
            return _groups(recorded, ours, key, name)
    if isinstance(recorded.get("paths"), list):
        extra = [path for path in ours.get("paths", ()) if path not in recorded["paths"]]
        return f"paths nobody has: {extra}" if extra else ""
    if isinstance(recorded.get("resources"), list) and isinstance(ours.get("resources"), list):
        recorded, ours = ({**t, "resources": {r["name"]: r for r in t["resources"]}} for t in (recorded, ours))
    return difference(recorded, ours)


def _groups(recorded: Tree, ours: Tree, key: str, name: Callable[[Tree], str]) -> str:
    known = {name(item): item for item in recorded[key]}
    for item in ours[key]:
        if name(item) not in known:
            return f"{key}: {name(item)!r} is not known to Kubernetes"
        wanted = _served(known[name(item)], item)
        if found := difference(_by_name(wanted), _by_name(item), f"{key}[{name(item)}]"):
            return found
    return ""


def _served(group: Tree, ours: Tree) -> Tree:
    """A recorded group with the versions that are served here."""
    served = [version["version"] for version in ours["versions"]]
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


def _openapi(recorded: Any, ours: Any) -> str:
    """Every schema that is there has the recorded fields, types and list rules; words are free."""
    if "paths" in recorded and "components" not in recorded:  # the index
        return "" if ours.get("paths") and all("serverRelativeURL" in e for e in ours["paths"].values()) else "no index"
    wanted = recorded.get("components", {}).get("schemas", {})
    found = ours.get("components", {}).get("schemas", {})
    if wanted and not found:
        return "no schemas"
    for name in sorted(found):
        if name in wanted and (told := difference(_shape(wanted[name]), _shape(found[name]), f"schemas[{name}]")):
            return told
    missing = [p for p in recorded.get("paths", {}) if "/watch/" not in p and p not in ours.get("paths", {})]
    return f"paths missing: {missing}" if missing else ""


def _shape(schema: Any) -> Any:
    """What a client reads of a schema: its fields and their types, and the rules of its lists."""
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


def _version(recorded: Any, ours: Any) -> str:
    return "" if set(ours) >= {"major", "minor", "gitVersion"} and ours["minor"] == recorded["minor"] else str(ours)


def _issuer(recorded: Any, ours: Any) -> str:
    return difference(sorted(recorded), sorted(ours))


_BY_PATH: tuple[tuple[str, Callable[[Any, Any], str]], ...] = (
    ("/openapi/", _openapi),
    ("/version", _version),
    ("/.well-known/", _issuer),
)


def is_discovery(path: str) -> bool:
    """Whether a path asks what is served."""
    parts = path.partition("?")[0].strip("/").split("/")
    return (
        parts in ([""], ["api"], ["apis"])
        or (parts[0] == "api" and len(parts) == 2)
        or (parts[0] == "apis" and len(parts) <= 3)
    )


def answer_difference(path: str, recorded: Tree, code: int, headers: Tree, body: bytes) -> str:
    """How a whole answer differs from a recorded one: code, content type and warnings, body."""
    if recorded["code"] != code:
        found = body[:700].decode(errors="replace")
        return f"wanted code {recorded['code']}, found {code}: {found} (wanted {_short(recorded.get('body'))})"
    wanted_headers = recorded.get("headers") or {}
    for name in ("content-type", "warning", "location", "vary"):
        if name == "content-type" and name not in wanted_headers:
            continue
        wanted, given = wanted_headers.get(name), headers.get(name)
        if isinstance(wanted, list):
            wanted = ", ".join(wanted)
        if name == "location":
            wanted, given = (text and text.partition("?")[0] for text in (wanted, given))
        if name == "vary" and not is_discovery(path) and not path.startswith("/openapi"):
            continue
        if wanted != given and not (name == "content-type" and path.startswith("/openapi/v3")):
            return f"header {name}: wanted {wanted!r}, found {given!r}"
    if "body" in recorded:
        try:
            ours = json.loads(body)
        except ValueError:
            return f"body: wanted JSON, found {body[:200]!r}"
        if is_discovery(path) and isinstance(recorded["body"], dict) and recorded["body"].get("kind") != "Status":
            return _discovery(recorded["body"], ours)
        return body_difference(path, recorded["body"], ours)
    if "body_text" in recorded and recorded["body_text"].strip():
        return text_difference(str(recorded["body_text"]), body.decode(errors="replace"))
    return ""


def text_difference(recorded: str, ours: str) -> str:
    """Texts: equal after masking, or the same list of checks."""
    if "[+]" in recorded:
        return "" if "[+]ping ok" in ours and ours.splitlines()[-1] == recorded.splitlines()[-1] else ours
    # YAML quotes a uid that could be read as a number.
    return difference(*(str(masked(text)).strip().replace('"UID"', "UID") for text in (recorded, ours)))
