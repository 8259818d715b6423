"""What admission adds to a new pod: a service account with its token, a priority, tolerations, a runtime's overhead.

The order is upstream's where it can be seen: a pod that lacks several things is refused for the first.
"""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import Reader, Write
from allotment.apiserver.kinds.limit_range_admission import with_default_limits
from allotment.model.trees import Tree

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
MIRROR: Final = "kubernetes.io/config.mirror"
_TOKEN_VOLUME: Final = "kube-api-access-"
#: A little more than an hour, by which upstream recognises the tokens it asked for itself.
_TOKEN_SECONDS: Final = 3607
_SOON_GONE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PATIENCE: Final = 300
_PREEMPTS: Final = "PreemptLowerPriority"


def admit(pod: Tree, write: Write) -> Tree:
    """Mutating admission of a new pod."""
    spec: Tree = {**(pod.get("spec") or {})}
    pod = {**pod, "spec": spec}
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName") or ""
    with_default_limits(pod, spec, write)
    if MIRROR not in (pod["metadata"].get("annotations") or {}):
        _service_account(spec, name, write)
    _priority(spec, name, write.reader)
    tolerate_lost_nodes(spec)
    _runtime_class(spec, name, write.reader)
    return pod


def _service_account(spec: Tree, name: str, write: Write) -> None:
    account_name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account_name
    entry = write.reader.get("serviceaccounts", write.namespace, account_name)
    if entry is None:
        raise forbidden(
            "pods", name,
            f"error looking up service account {write.namespace}/{account_name}: serviceaccount "
            f'"{account_name}" not found',
        )  # fmt: skip
    account = entry.tree
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = account.get("automountServiceAccountToken")
    if wanted is None or wanted:
        _mount_token(spec, write)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]


def _mount_token(spec: Tree, write: Write) -> None:
    volumes: list[Tree] = spec.get("volumes") or []
    present = next((v["name"] for v in volumes if (v.get("name") or "").startswith(_TOKEN_VOLUME)), "")
    volume = present or _TOKEN_VOLUME + write.suffix()
    mounted = False
    for part in ("initContainers", "containers"):
        items: list[Tree] = spec.get(part) or []
        if items:
            spec[part] = made = [_with_mount(item, volume) for item in items]
            mounted = mounted or any(one is not other for one, other in zip(made, items, strict=True))
    if mounted and not present:
        spec["volumes"] = [*volumes, _token_volume(volume)]


def _with_mount(item: Tree, volume: str) -> Tree:
    mounts: list[Tree] = item.get("volumeMounts") or []
    if any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
        return item
    return {**item, "volumeMounts": [*mounts, {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}]}


def _token_volume(name: str) -> Tree:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 0o644,
        },
    }


def _priority(spec: Tree, name: str, reader: Reader) -> None:
    wanted = spec.get("priorityClassName") or ""
    if wanted:
        entry = reader.get("priorityclasses.scheduling.k8s.io", "", wanted)
        if entry is None:
            raise forbidden("pods", name, f"no PriorityClass with name {wanted} was found")
        found: Tree = entry.tree
    else:
        found = default_priority_class(reader)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
    value, policy = found.get("value") or 0, found.get("preemptionPolicy") or _PREEMPTS
    own = spec.get("priority")
    if own is not None and own != value:
        raise forbidden(
            "pods", name,
            f"the integer value of priority ({own}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name",
        )  # fmt: skip
    own = spec.get("preemptionPolicy")
    if own and own != policy:
        raise forbidden(
            "pods", name,
            f"the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission "
            f"controller computed {policy} from the given PriorityClass name",
        )  # fmt: skip
    spec["priority"], spec["preemptionPolicy"] = value, policy


def default_priority_class(reader: Reader) -> Tree:
    """The class of pods that name none: of several global defaults the lowest; empty without any."""
    classes = [
        entry.tree for entry in reader.list("priorityclasses.scheduling.k8s.io") if entry.tree.get("globalDefault")
    ]
    return min(classes, key=lambda tree: tree.get("value") or 0, default={})


def tolerate_lost_nodes(spec: Tree) -> None:
    """Stay on a node that is lost for five minutes, unless the pod says otherwise. ``spec`` is changed."""
    tolerations: list[Tree] = spec.get("tolerations") or []
    executing = [item for item in tolerations if item.get("effect") in (None, "", "NoExecute")]
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE}
        for key in _SOON_GONE
        if not any(item.get("key") in (None, "", key) for item in executing)
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _runtime_class(spec: Tree, name: str, reader: Reader) -> None:
    wanted = spec.get("runtimeClassName")
    if not wanted:
        return
    entry = reader.get("runtimeclasses.node.k8s.io", "", wanted)
    if entry is None:
        raise forbidden("pods", name, f'pod rejected: RuntimeClass "{wanted}" not found')
    runtime = entry.tree
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if overhead:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise forbidden("pods", name, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = overhead
    scheduling = runtime.get("scheduling") or {}
    selector: Tree = {**(spec.get("nodeSelector") or {})}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.setdefault(key, value) != value:
            raise forbidden(
                "pods", name,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = "
                f"{selector[key]}",
            )  # fmt: skip
    if selector:
        spec["nodeSelector"] = selector
    own = spec.get("tolerations") or []
    more = [item for item in scheduling.get("tolerations") or () if item not in own]
    if more:
        spec["tolerations"] = [*own, *more]
