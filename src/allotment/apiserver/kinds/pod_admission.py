"""Mutating admission of new pods: service account and token, priority, default tolerations, runtime class.

The plugins run in upstream's order as far as it is visible: the first one that rejects a pod determines the error.
"""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import StoreReader, Write
from allotment.apiserver.kinds.limit_range_admission import apply_default_limits
from allotment.apiserver.kinds.priority_admission import admit_pod
from allotment.apiserver.kinds.secret_restrictions import mirror_pod_problem, mountable_secrets_problem
from allotment.apiserver.kinds.topology_labels import with_topology_labels
from allotment.model.trees import Tree

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
MIRROR: Final = "kubernetes.io/config.mirror"
_TOKEN_VOLUME_PREFIX: Final = "kube-api-access-"
#: Slightly more than an hour, by which upstream recognizes the tokens that admission requested.
_TOKEN_SECONDS: Final = 3607
_LOST_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300


def admit(pod: Tree, write: Write) -> Tree:
    """Admit a new pod. Raises StatusError if it is rejected."""
    spec: Tree = {**(pod.get("spec") or {})}
    pod = {**pod, "spec": spec}
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName") or ""
    apply_default_limits(pod, spec, write)
    is_mirror = MIRROR in (pod["metadata"].get("annotations") or {})
    if "ServiceAccount" not in write.disabled_plugins:
        if not is_mirror:
            _service_account(spec, name, write)
        elif problem := mirror_pod_problem(pod):
            raise forbidden("pods", name, problem)
    admit_pod(spec, name, write.reader)
    add_default_tolerations(spec)
    _runtime_class(spec, name, write.reader)
    pod["metadata"] = with_topology_labels(pod["metadata"], spec.get("nodeName") or "", write)
    return pod


def check_overhead(pod: Tree, write: Write) -> None:
    """Raise StatusError if a valid pod has an overhead that no RuntimeClass defines."""
    spec: Tree = pod["spec"]
    if spec.get("overhead") is None or "RuntimeClass" in write.disabled_plugins:
        return
    name = spec.get("runtimeClassName")
    entry = write.reader.get("runtimeclasses.node.k8s.io", "", name) if name else None
    if entry is None or entry.tree.get("overhead") is None:
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden("pods", pod["metadata"]["name"], text)


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
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = account.get("automountServiceAccountToken")
    if automount is None or automount:
        _mount_token(spec, write)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]
    if problem := mountable_secrets_problem(spec, account):
        raise forbidden("pods", name, problem)


def _mount_token(spec: Tree, write: Write) -> None:
    volumes: list[Tree] = spec.get("volumes") or []
    existing = next((item["name"] for item in volumes if (item.get("name") or "").startswith(_TOKEN_VOLUME_PREFIX)), "")
    volume = existing or _TOKEN_VOLUME_PREFIX + write.suffix()
    mounted = False
    for part in ("initContainers", "containers"):
        items: list[Tree] = spec.get(part) or []
        if items:
            spec[part] = mounted_items = [_with_mount(item, volume) for item in items]
            mounted = mounted or any(new is not old for new, old in zip(mounted_items, items, strict=True))
    if mounted and not existing:
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


def add_default_tolerations(spec: Tree) -> None:
    """Tolerate an unreachable node for five minutes, unless the pod has such a toleration. Modifies ``spec``."""
    tolerations: list[Tree] = spec.get("tolerations") or []
    no_execute = [item for item in tolerations if item.get("effect") in (None, "", "NoExecute")]
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _LOST_NODE_TAINTS
        if not any(item.get("key") in (None, "", key) for item in no_execute)
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _runtime_class(spec: Tree, name: str, reader: StoreReader) -> None:
    class_name = spec.get("runtimeClassName")
    if not class_name:
        return
    entry = reader.get("runtimeclasses.node.k8s.io", "", class_name)
    if entry is None:
        raise forbidden("pods", name, f'pod rejected: RuntimeClass "{class_name}" not found')
    runtime_class = entry.tree
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    if overhead:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise forbidden("pods", name, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = overhead
    scheduling = runtime_class.get("scheduling") or {}
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
    tolerations = spec.get("tolerations") or []
    missing = [item for item in scheduling.get("tolerations") or () if item not in tolerations]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]
