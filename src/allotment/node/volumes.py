"""Volume folders for pods with real containers: emptyDir, hostPath, ConfigMaps, Secrets, the downward API, tokens and
ClusterTrustBundles.

A token is requested before each run of a container and not renewed while it runs: by default API servers accept tokens
of about an hour for a year (``--service-account-extend-token-expiration``).

The folders are created under the node's state folder before a container starts, and removed with the pod. A node
without a state folder (a simulated node) has no volumes. Volumes of other kinds are not mounted, except for the
PersistentVolumes of a lab (see :mod:`.pod_mounts`).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from allotment.model.trees import Tree
from allotment.node.environment import amount_of, data_of, field_of
from allotment.node.host_paths import host_folder, is_host_folder
from allotment.node.runtimes.runtime import NotStarted
from allotment.node.trust_bundles import NoTrustBundle, trust_anchors

_CONFIG_ERROR: Final = "CreateContainerConfigError"
#: Mount path of the service account token; every pod has a volume there unless it opts out.
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def folder_of(state: Path, pod_uid: str) -> Path:
    """The folder of a pod's volumes."""
    return state / "pods" / pod_uid / "volumes"


async def mounts(
    state: Path | None, pod: Tree, spec: Tree, *, client: Client, pod_ip: str, node: Tree
) -> dict[str, Path]:  # fmt: skip
    """Create or update a container's volumes and return them by mount path. Raises NotStarted, OSError."""
    wanted = spec.get("volumeMounts") or ()
    if state is None or not wanted:
        return {}
    named = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    found: dict[str, Path] = {}
    for mount in wanted:
        volume = named.get(mount["name"])
        if volume is None:
            continue
        folder = folder_of(state, pod["metadata"]["uid"]) / volume["name"]
        if is_host_folder(volume):
            folder = host_folder(state, node, volume["hostPath"]["path"])
        files = await files_of(volume, pod, client, pod_ip, node)
        # A link is a PersistentVolume.
        if not files and "emptyDir" not in volume and not is_host_folder(volume) and not folder.is_symlink():
            continue
        inside = folder / mount["subPath"] if mount.get("subPath") else folder
        if not inside.resolve().is_relative_to(folder.resolve()):
            raise NotStarted(_CONFIG_ERROR, f"failed to prepare subPath for volumeMount {mount['name']!r}")
        await asyncio.to_thread(_fill, folder, files)
        if mount.get("subPath") and not inside.exists():
            inside.mkdir(parents=True)
        found[mount["mountPath"]] = inside
    return found


def remove(state: Path | None, pod_uid: str) -> None:
    """Remove a pod's folders, if they exist."""
    if state is not None:
        shutil.rmtree(state / "pods" / pod_uid, ignore_errors=True)


async def files_of(volume: Tree, pod: Tree, client: Client, pod_ip: str, node: Tree) -> dict[str, str]:
    """The contents of a volume's files by relative path. Raises NotStarted."""
    namespace = pod["metadata"].get("namespace", "")
    files: dict[str, str] = {}
    sources: Iterable[Tree] = (volume.get("projected") or {}).get("sources") or (volume,)
    for source in sources:
        for kind, resource in (("configMap", CONFIG_MAPS), ("secret", SECRETS)):
            if reference := source.get(kind):
                name = reference.get("name") or reference.get("secretName")
                data = await data_of(client, resource, {**reference, "name": name}, namespace)
                files |= _chosen(data, reference.get("items") or ())
        if (token := source.get("serviceAccountToken")) is not None:
            files[token["path"]] = await _token(client, pod, token)
        if (bundle := source.get("clusterTrustBundle")) is not None:
            files[bundle["path"]] = await _trust_anchors(client, bundle)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            if path := (item.get("fieldRef") or {}).get("fieldPath"):
                files[item["path"]] = field_of(pod, path, _host_ip(node), pod_ip)
            elif resource := item.get("resourceFieldRef"):
                files[item["path"]] = amount_of(pod, resource["containerName"], resource, node)
    return files


async def _trust_anchors(client: Client, bundle: Tree) -> str:
    try:
        return await trust_anchors(client, bundle)
    except (NoTrustBundle, StatusError, Unreachable) as error:
        raise NotStarted(_CONFIG_ERROR, str(error)) from error


async def _token(client: Client, pod: Tree, wanted: Tree) -> str:
    """Request a token of the pod's service account, bound to the pod. Raises NotStarted."""
    metadata = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    spec: Tree = {"boundObjectRef": bound, "expirationSeconds": wanted.get("expirationSeconds", 3600)}
    spec["audiences"] = [wanted["audience"]] if wanted.get("audience") else []
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    account = pod["spec"].get("serviceAccountName") or "default"
    try:
        answer = await client.create(
            SERVICE_ACCOUNTS, request, metadata.get("namespace", ""), name=account, subresource="token"
        )
    except (StatusError, Unreachable) as error:
        raise NotStarted(_CONFIG_ERROR, f"failed to fetch token: {error}") from error
    return str(answer["status"]["token"])


def _chosen(data: Mapping[str, str], items: Iterable[Tree]) -> dict[str, str]:
    chosen = {item["path"]: data[item["key"]] for item in items if item["key"] in data}
    return chosen if items else dict(data)


def _host_ip(node: Tree) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(entry["address"]) for entry in addresses if entry.get("type") == "InternalIP"), "")


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
