"""The effect of kubectl commands on the objects of a scenario, and whether `allot` accepts a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from allotment.cli.main import command_line
from allotment.model.loading.marks import at
from allotment.model.trees import Tree

#: Kinds as kubectl names them; those without a namespace first.
CLUSTER_KINDS = {"node": "Node", "deviceclass": "DeviceClass", "namespace": "Namespace"}
KINDS = {
    **CLUSTER_KINDS,
    "pod": "Pod",
    "resourceclaim": "ResourceClaim",
    "resourceclaimtemplate": "ResourceClaimTemplate",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "podgroup": "PodGroup",
    "job": "Job",
}
#: What `kubectl get` may list.
LISTED = ("nodes", "pods", "resourceclaims", "resourceclaimtemplates", "podgroups", "deviceclasses")


def commands_of(line: str) -> list[list[str]]:
    """The commands of a line.

    >>> commands_of("kubectl uncordon a && allot explain pod/x -n ml -o manifests | kubectl replace --force -f -")
    [['kubectl', 'uncordon', 'a'], ['allot', 'explain', 'pod/x', '-n', 'ml', '-o', 'manifests'], \
['kubectl', 'replace', '--force', '-f', '-']]
    """
    found: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word in ("&&", "|"):
            found.append([])
        else:
            found[-1].append(word)
    return found


def accepts(command: Sequence[str]) -> bool:
    """Whether `allot` accepts the arguments of a command."""
    try:
        command_line(command[1]).parse_args(command[1:])
    except SystemExit:
        return False
    return True


def replace(manifests: Iterable[Tree], trees: list[Tree]) -> None:
    """``kubectl replace --force``: deletes objects if they exist, and so the claims of a pod, and creates them."""
    for manifest in manifests:
        kind, metadata = manifest["kind"], manifest["metadata"]
        assert not {"uid", "resourceVersion", "ownerReferences"} & metadata.keys()
        old = next((tree for tree in trees if _key(tree) == _key(manifest)), {})
        generated = old.get("status", {}).get("resourceClaimStatuses", ())
        assert kind not in ("Pod", "PodGroup") or "status" not in manifest
        names = {status["resourceClaimName"] for status in generated}
        trees[:] = [
            tree
            for tree in trees
            if tree is not old and not (tree["kind"] == "ResourceClaim" and tree["metadata"]["name"] in names)
        ]
        trees.append(manifest)


def _key(tree: Tree) -> tuple[str, str, str]:
    metadata = tree["metadata"]
    return tree["kind"], metadata.get("namespace", "default"), metadata["name"]


def run_kubectl(command: Sequence[str], trees: Sequence[Tree]) -> bool:
    """Make the changes of a kubectl command; return whether it makes any. ``AssertionError`` if it would fail."""
    verb, *words = command[1:]
    assert verb in _VERBS, command
    options, names = _options(words)
    return _VERBS[verb](names, options, trees)


def _options(words: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """The options with their values, and the other words."""
    found = {name: value for name, value in pairwise(words) if name in ("-n", "-o", "-p")}
    taken = {*found, *found.values()}
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            found[name] = value if equals else "true"
    return found, [word for word in words if word not in taken and not word.startswith("--")]


def _object(word: str, name: str, namespace: str, trees: Sequence[Tree]) -> Tree:
    kind = KINDS[word]
    for tree in trees:
        metadata = tree["metadata"]
        is_in = kind in CLUSTER_KINDS.values() or metadata.get("namespace", "default") == namespace
        if tree["kind"] == kind and metadata["name"] == name and is_in:
            return tree
    raise AssertionError(f"no {kind} {namespace}/{name}")


def _uncordon(names: Sequence[str], options: Mapping[str, str], trees: Sequence[Tree]) -> bool:
    (name,) = names
    spec = _object("node", name, "", trees)["spec"]
    assert spec.pop("unschedulable")
    taints = [taint for taint in spec.get("taints", ()) if taint["key"] != "node.kubernetes.io/unschedulable"]
    spec["taints"] = taints
    return True


def _label(names: Sequence[str], options: Mapping[str, str], trees: Sequence[Tree]) -> bool:
    kind, name, label = names
    assert kind == "namespace"
    key, _, value = label.partition("=")
    namespaces = [tree for tree in trees if tree["kind"] == "Namespace" and tree["metadata"]["name"] == name]
    if not namespaces:  # scenarios do not contain the namespaces of their objects
        namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]
        assert isinstance(trees, list)
        trees.extend(namespaces)
    labels = namespaces[0]["metadata"].setdefault("labels", {})
    assert key not in labels or "--overwrite" in options
    labels[key] = value
    return True


def _patch(names: Sequence[str], options: Mapping[str, str], trees: Sequence[Tree]) -> bool:
    kind, name = names
    tree = _object(kind, name, options.get("-n", ""), trees)
    patch = json.loads(options["-p"])
    if options["--type"] == "merge":
        _merge(tree, patch)
        return True
    assert options["--type"] == "json"
    for operation in patch:
        _operate(tree, operation)
    return True


def _merge(tree: Any, patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            assert key in tree
            del tree[key]
        elif isinstance(value, dict):
            _merge(tree.setdefault(key, {}), value)
        else:
            tree[key] = value


def _operate(tree: Any, operation: Mapping[str, Any]) -> None:
    words = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    *path, last = [int(word) if word.isdigit() else word for word in words]
    parent = at(tree, tuple(path))
    assert parent is not None, operation
    if operation["op"] == "remove":
        del parent[last]
    elif last == "-":
        parent.append(operation["value"])
    else:
        assert operation["op"] == "add" or at(parent, (last,)) is not None
        parent[last] = operation["value"]


def _scale(names: Sequence[str], options: Mapping[str, str], trees: Sequence[Tree]) -> bool:
    kind, name = names
    _object(kind, name, options["-n"], trees)["spec"]["replicas"] = int(options["--replicas"])
    return True


def _get(names: Sequence[str], options: Mapping[str, str], trees: Sequence[Tree]) -> bool:
    kind, *objects = names
    assert objects or kind in LISTED, kind
    for name in objects:
        _object(kind, name, options.get("-n", ""), trees)
    return False


def _delete(names: Sequence[str], options: Mapping[str, str], trees: Sequence[Tree]) -> bool:
    kind, *objects = names
    if kind in ("resourceclaim", "resourceclaimtemplate"):
        assert isinstance(trees, list)
        for name in objects:
            tree = _object(kind, name, options["-n"], trees)
            assert "allocation" not in tree.get("status", {})
            trees.remove(tree)
        return True
    assert kind == "pod"
    for name in objects:
        assert _object(kind, name, options["-n"], trees)["status"]["phase"] in ("Succeeded", "Failed")
    return False  # the claim controller then releases the devices, which no scenario shows


_Verb = Callable[[Sequence[str], Mapping[str, str], Sequence[Tree]], bool]
_VERBS: Mapping[str, _Verb] = {
    "uncordon": _uncordon, "label": _label, "patch": _patch, "scale": _scale, "get": _get, "describe": _get,
    "delete": _delete,
}  # fmt: skip
