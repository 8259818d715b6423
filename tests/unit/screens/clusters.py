"""Views of clusters for tests: described machines with pods and claims, and the worlds of the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from allotment.api.cluster import Cluster
from allotment.api.clusters.source import ClusterOrigin
from allotment.api.objects.inputs import Inputs, queued
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.core import Container, Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectMeta, OwnerReference
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from tests.corpus.test_corpus import HERE, head

#: The worlds of the corpus that ``explain`` answers.
WORLDS = sorted(
    name
    for path in HERE.glob("**/*.yaml")
    if "code" in head(name := str(path.relative_to(HERE).with_suffix(""))) and head(name)["code"] != "search-given-up"
)
#: Gates that others require; an engine's features do not check it.
_REQUIRED = {"DRAWorkloadResourceClaims": ("GenericWorkload",), "TopologyAwareWorkloadScheduling": ("GenericWorkload",)}
FEATURES = Features(kube="1.36")
CREATED = "2026-01-01T00:00:00Z"


def world(name: str) -> ClusterView:
    """The cluster of a corpus file."""
    expected = head(name)
    names = [gate for gate in expected.get("features", "").removeprefix("gates=").split(",") if gate]
    required = [gate for name in names for gate in _REQUIRED.get(name, ())]
    gates = dict.fromkeys((*required, *names), True)
    file: Path = HERE / f"{name}.yaml"
    return WatchedCluster.of_snapshot(Cluster.snapshot(file, kube=expected.get("kube", "1.36"), gates=gates)).view()


def fleet(*machines: str) -> tuple[Object, ...]:
    """The objects of described machines, as an API server has them."""
    found = cluster_of(parse_fleet(machines), FEATURES.kube)
    objects: Iterable[Object] = (*found.nodes, *found.slices, *found.classes)
    return tuple(replace(each, metadata=replace(each.metadata, uid=f"uid-{each.metadata.name}")) for each in objects)


def view(*objects: Object, revision: int = 1) -> ClusterView:
    """A view of these objects."""
    return ClusterView(revision, Inputs(FEATURES, queued(objects)), ClusterOrigin(), "test", "cluster")


def request(count: int = 1, device_class: str = "gpu.nvidia.com") -> ResourceClaimSpec:
    """A request for devices of a class."""
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
    return ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),)))


def template(name: str = "gpu", spec: ResourceClaimSpec | None = None, namespace: str = "ml") -> ResourceClaimTemplate:
    """A template of claims."""
    metadata = ObjectMeta(name=name, namespace=namespace, uid=f"template-{name}")
    return ResourceClaimTemplate(metadata=metadata, spec=ResourceClaimTemplateSpec(spec=spec or request()))


def pod(
    name: str,
    *devices: str,
    node: str = "",
    owner: str = "",
    of: str = "gpu",
    namespace: str = "ml",
    spec: ResourceClaimSpec | None = None,
    created: str = CREATED,
) -> tuple[Pod, ResourceClaim]:
    """A pod and its generated claim; with a node, it runs there with the ``devices``."""
    uid, claim_name = f"pod-{namespace}-{name}", f"{name}-gpu-x1"
    kind, _, owner_name = owner.partition("/")
    owners = (OwnerReference(api_version="apps/v1", kind=kind, name=owner_name, uid=owner, controller=True),)
    status = PodStatus(
        phase="Running" if node else "Pending",
        resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name=claim_name),),
    )
    own = Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            creation_timestamp=created,
            owner_references=owners if owner else (),
        ),
        spec=PodSpec(
            node_name=node,
            containers=(Container(name="main"),),
            resource_claims=(PodResourceClaim(name="gpu", resource_claim_template_name=of),),
        ),
        status=status,
    )
    return own, _claim(claim_name, own, node, devices, spec or request(max(len(devices), 1)))


def _claim(name: str, user: Pod, node: str, devices: Sequence[str], spec: ResourceClaimSpec) -> ResourceClaim:
    owner = OwnerReference(kind="Pod", name=user.metadata.name, uid=user.metadata.uid, controller=True)
    metadata = ObjectMeta(
        name=name,
        namespace=user.metadata.namespace,
        uid=f"claim-{user.metadata.namespace}-{name}",
        annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
        owner_references=(owner,),
    )
    if not node:
        return ResourceClaim(metadata=metadata, spec=spec)
    results = tuple(
        DeviceRequestAllocationResult(request="gpu", driver="gpu.nvidia.com", pool=node, device=device)
        for device in devices
    )
    consumer = ResourceClaimConsumerReference(resource="pods", name=user.metadata.name, uid=user.metadata.uid)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    return ResourceClaim(
        metadata=metadata, spec=spec, status=ResourceClaimStatus(allocation=allocation, reserved_for=(consumer,))
    )
