"""The objects that the volumes of a pod require: ConfigMaps, Secrets, and bound PersistentVolumeClaims.

Without them the pod stays in ContainerCreating, and events state what is missing, as those of the kubelet do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CONFIG_MAPS, SECRETS
from allotment.model.pod_volume_claims import ephemeral_claim_name, is_for, not_owned_message
from allotment.model.trees import Tree
from allotment.node.container_files import Directory
from allotment.node.trust_bundles import NoTrustBundle, trust_anchors
from allotment.node.volumes import folder_of

#: The provisioner of a lab's own volumes.
PROVISIONER: Final = "allotment.dev/volumes"
_SOURCES: Final = (("configMap", CONFIG_MAPS, "name"), ("secret", SECRETS, "secretName"))
_MISSING_KEYS: Final = {
    "configMap": "configmap references non-existent config key: {}",
    "secret": "references non-existent secret key: {}",
}  # fmt: skip


class NotMounted(Exception):
    """Raised when volumes cannot be mounted yet. ``texts``: the messages of the events."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        super().__init__("; ".join(self.texts))


class PersistentVolumes:
    """The PersistentVolumes that the pods of a node can use.

    ``in_memory``: their files for simulated containers, by uid, which all nodes share. ``folder``: those for real ones.
    """

    def __init__(
        self, claims: Cache[Any], volumes: Cache[Any], in_memory: dict[str, Directory], folder: Path | None = None
    ) -> None:
        self._claims = claims
        self._volumes = volumes
        self._in_memory = in_memory
        self._folder = folder

    def volume_of(self, pod: Tree, source: Tree) -> Tree:
        """The volume of a pod's volume source that is bound to a claim. Raises NotMounted."""
        namespace = pod["metadata"].get("namespace", "")
        ephemeral = source.get("ephemeral") is not None
        name = ephemeral_claim_name(pod, source) if ephemeral else source["persistentVolumeClaim"]["claimName"]
        claim = self._claims.tree(namespace, name)
        where = f"error processing PVC {namespace}/{name}: "
        if claim is None:
            text = f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
            raise NotMounted([where + text])
        if (claim.get("status") or {}).get("phase") != "Bound":
            raise NotMounted([f"{where}PVC is not bound"])
        if ephemeral and not is_for(claim, pod):
            raise NotMounted([not_owned_message(claim, pod)])
        name = claim["spec"].get("volumeName") or ""
        volume = self._volumes.tree("", name)
        if volume is None:
            text = f'failed to fetch PV {name} from API server: persistentvolumes "{name}" not found'
            raise NotMounted([where + text])
        return volume

    def directory(self, volume: Tree) -> Directory:
        """The files of a volume for simulated containers: they are kept until the volume is deleted."""
        return self._in_memory.setdefault(volume["metadata"]["uid"], Directory())

    def link(self, name: str, volume: Tree, pod_folder: Path) -> None:
        """Make a volume available to real containers in the folder of a pod's volumes. Raises OSError.

        Only the volumes that a lab provisioned are mounted.
        """
        annotations = volume["metadata"].get("annotations") or {}
        if self._folder is None or annotations.get("pv.kubernetes.io/provisioned-by") != PROVISIONER:
            return
        folder = self._folder / volume["metadata"]["name"]
        folder.mkdir(parents=True, exist_ok=True)
        pod_folder.mkdir(parents=True, exist_ok=True)
        if not (pod_folder / name).is_symlink():
            (pod_folder / name).symlink_to(folder.absolute(), target_is_directory=True)


async def mount_volumes(
    pod: Tree, client: Client, persistent: PersistentVolumes, state: Path | None
) -> dict[str, Directory]:
    """Mount the volumes of a pod; return the files of PersistentVolumes for simulated containers, by volume names.

    ``state``: the node's folder, where containers are real. Raises NotMounted.
    """
    found: dict[str, Tree] = {}
    unprocessed: dict[str, str] = {}
    texts: list[str] = []
    for volume in _used(pod):
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            try:
                found[volume["name"]] = persistent.volume_of(pod, volume)
            except NotMounted as error:
                unprocessed[volume["name"]] = str(error)
        elif problems := [text async for text in _problems(volume, pod["metadata"].get("namespace", ""), client)]:
            problem = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            texts.append(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem}')
    if unprocessed:
        names = f"[{' '.join(sorted(unprocessed))}]"
        texts.append(
            f"Unable to attach or mount volumes: unmounted volumes={names}, unattached volumes=[], failed to process "
            f"volumes={names}: {'; '.join(unprocessed.values())}"
        )
    if texts:
        raise NotMounted(texts)
    if state is None:
        return {name: persistent.directory(volume) for name, volume in found.items()}
    for name, volume in found.items():
        try:
            persistent.link(name, volume, folder_of(state, pod["metadata"]["uid"]))
        except OSError as error:
            text = f'MountVolume.SetUp failed for volume "{volume["metadata"]["name"]}" : {error}'
            raise NotMounted([text]) from error
    return {}


def _used(pod: Tree) -> Iterator[Tree]:
    """The volumes that a container mounts."""
    volumes = pod["spec"].get("volumes")
    if not volumes:
        return
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    fields = ("volumeMounts", "volumeDevices")
    names = {mount["name"] for each in containers for field in fields for mount in each.get(field) or ()}
    yield from (volume for volume in volumes if volume["name"] in names)


async def _problems(volume: Tree, namespace: str, client: Client) -> AsyncIterator[str]:
    """Yield the problems of a volume of ConfigMaps, Secrets and ClusterTrustBundles."""
    sources: Iterable[Tree] = (volume.get("projected") or {}).get("sources") or (volume,)
    for source in sources:
        for kind, resource, field in _SOURCES:
            reference = source.get(kind)
            if reference is None or reference.get("optional"):
                continue
            name = reference.get("name") or reference.get(field) or ""
            data = await _keys(client, resource, name, namespace)
            if isinstance(data, str):
                yield data
                continue
            missing = [item["key"] for item in reference.get("items") or () if item["key"] not in data]
            if missing:
                yield _MISSING_KEYS[kind].format(missing[0])
        if (bundle := source.get("clusterTrustBundle")) is not None:
            try:
                await trust_anchors(client, bundle)
            except (NoTrustBundle, StatusError, Unreachable) as error:
                yield str(error)


async def _keys(client: Client, resource: Resource, name: str, namespace: str) -> frozenset[str] | str:
    """The keys of a ConfigMap or Secret, or the reason why it cannot be read."""
    try:
        tree = await client.get(resource, name, namespace)
    except StatusError as error:
        return f'{resource.kind.lower()} "{name}" not found' if error.code == 404 else str(error)
    except Unreachable as error:
        return str(error)
    return frozenset({*(tree.get("data") or ()), *(tree.get("binaryData") or ())})
