"""The claims, pods and workloads that use a device, and whether a driver has prepared it for them."""

from __future__ import annotations

from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey, Value
from allotment.model.resource import ResourceClaim
from allotment.watched.devices import STARTED
from allotment.watched.view import ClusterView


class MapHolder(Value, frozen=True):
    """A claim that holds devices, the pods that use it, and their workload (``Deployment ml/server``)."""

    claim: str
    namespace: str
    pods: tuple[str, ...] = ()
    workload: str = ""
    is_admin: bool = False


class Holders:
    """Looks up the claims that hold devices; each is looked up once."""

    def __init__(self, view: ClusterView) -> None:
        self._objects = view.objects
        self._known: dict[str, tuple[ResourceClaim | None, tuple[Pod, ...]]] = {}

    def of(self, claim: str, *, is_admin: bool = False) -> MapHolder:
        """Return a claim as the holder of devices. ``is_admin``: it has admin access, and others may use them."""
        value, pods = self._find(claim)
        namespace = key_of(claim).namespace
        users = value.status.reserved_for if value is not None else ()
        return MapHolder(
            claim=claim,
            namespace=namespace,
            pods=tuple(f"{namespace}/{user.name}" for user in users if user.resource == "pods"),
            workload=next(filter(None, map(workload_of, pods)), ""),
            is_admin=is_admin,
        )

    def is_prepared(self, claim: str, driver: str, pool: str, device: str) -> bool | None:
        """Return whether a driver has prepared a device for a claim; None if it is not known.

        The driver may report it in the claim's status (KEP-4817); otherwise a pod whose containers have started has it.
        """
        value, pods = self._find(claim)
        for status in value.status.devices if value is not None else ():
            if (status.driver, status.pool, status.device) == (driver, pool, device):
                ready = next((c.status for c in status.conditions if c.type == "Ready"), "")
                if ready:
                    return ready == "True"
        if any(pod.status.phase in STARTED for pod in pods):
            return True
        return False if pods and all(pod.spec.node_name for pod in pods) else None

    def _find(self, name: str) -> tuple[ResourceClaim | None, tuple[Pod, ...]]:
        known = self._known.get(name)
        if known is None:
            key = key_of(name)
            value = self._objects.get(("ResourceClaim", key))
            claim = value if isinstance(value, ResourceClaim) else None
            users = claim.status.reserved_for if claim is not None else ()
            found = (self._objects.get(("Pod", ObjectKey(key.namespace, user.name))) for user in users)
            known = self._known[name] = (claim, tuple(pod for pod in found if isinstance(pod, Pod)))
        return known


def workload_of(pod: Pod) -> str:
    """Return the workload of a pod as kind and name; empty for a pod without one."""
    owner = owner_of(pod)
    return template_of(pod, owner)[0] if owner else ""


def key_of(name: str) -> ObjectKey:
    """Return the key of ``namespace/name``, or of a name without namespace."""
    namespace, _, plain = name.rpartition("/")
    return ObjectKey(namespace, plain)
