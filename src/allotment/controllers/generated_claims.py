"""Claims generated from templates for each entry of a pod or PodGroup, and recorded in the owner's status.

Both kinds of owner work the same way (KEP-4381, KEP-5729): an existing claim that the status names stays, a claim that
was created but not recorded is found by its owner and annotation, otherwise a new one is created. A pod whose entry is
that of its group gets the group's claim recorded as soon as it exists.

Only one controller should be active. If two are (a second copy without a Lease, or the Kubernetes controller), both
create a claim. The claim that the pod's status names first stays, because the pod may already be scheduled with it; the
other is spare.
"""

from __future__ import annotations

import logging
from operator import itemgetter
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem, by_controller
from allotment.cluster.client import Resource
from allotment.cluster.converting_client import best_version
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, POD_GROUPS, PODS
from allotment.controllers.claim_counts import ClaimCounts
from allotment.controllers.pods import owner_reference
from allotment.controllers.release import controller_release
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.generated_claims import POD_CLAIM_NAME, name_prefix
from allotment.model.releases import release_table
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_COMPONENT: Final = "resource-claim-controller"
_DUPLICATE: Final = (
    "pod %s has two claims for %s, because two controllers generate claims. Disable the Kubernetes controller"
    " (kube-controller-manager --controllers=*,-resourceclaim-controller), or run all replicas with --leader-elect"
)


class Owners(NamedTuple):
    """A kind of owner for which claims are generated. ``entry``: the name of an entry in events."""

    resource: Resource
    entry: str


OF_PODS: Final = Owners(PODS, "PodResourceClaim")
OF_GROUPS: Final = Owners(POD_GROUPS, "PodGroupResourceClaim")


def _group_api_version(features: Features) -> str:
    """The ``apiVersion`` of PodGroups in owner references: the one that the release's own controller uses.

    >>> _group_api_version(Features("1.36")), _group_api_version(Features("1.37"))
    ('scheduling.k8s.io/v1alpha2', 'scheduling.k8s.io/v1beta1')
    """
    versions = release_table(features.kube).groups.get(POD_GROUPS.group, {})
    served = [name for name, version in versions.items() if POD_GROUPS.plural in version.resources]
    return f"{POD_GROUPS.group}/{best_version(POD_GROUPS, served) or POD_GROUPS.version}"


class Generator:
    """Generates claims. All operations are idempotent."""

    def __init__(self, context: ProgramContext, features: Features, counts: ClaimCounts) -> None:
        self._counts = counts
        self._group_api_version = _group_api_version(features)
        self._sorts_statuses = controller_release(features).sorts_claim_statuses
        self._client = context.client_for(_COMPONENT)
        # Claim names in a status have their own field manager, so that applying them changes nothing else.
        self._statuses = context.client_for(_COMPONENT, "ResourceClaimController")
        self._recorder = context.recorder("resource_claim")
        self._caches = context.caches
        self._claims = context.caches.trees(CLAIMS)
        self._templates = context.caches.trees(CLAIM_TEMPLATES)
        self._warned = False
        self.made_for = self._claims.index("controller", by_controller)

    async def complete(self, owners: Owners, owner: CachedItem[Any], group: CachedItem[Any] | None = None) -> bool:
        """Create the missing claims of an owner and record them in its status; returns whether it changed.

        ``group`` is the group of a pod. Raises StatusError, after an event about the entry that failed.
        """
        known = {status["name"]: status for status in owner.status.get("resourceClaimStatuses") or ()}
        names: dict[str, str] = {}
        for entry in owner.spec.get("resourceClaims") or ():
            if not entry.get("resourceClaimTemplateName"):
                continue
            try:
                name = await self._claim_for(owner, entry, known.get(entry["name"]), group)
            except StatusError as error:
                text = f"{owners.entry} {entry['name']}: {error}"
                self._recorder.event(owner.tree, "Warning", "FailedResourceClaimCreation", text)
                raise
            if name:
                names[entry["name"]] = name
        if names:
            await self._update_status(owners, owner, known, names)
        return bool(names)

    async def is_spare(self, claim: CachedItem[Any], pod: CachedItem[Any]) -> bool:
        """Whether a claim generated for a pod is unallocated and unused because the pod names another one."""
        entry = (claim.metadata.get("annotations") or {}).get(POD_CLAIM_NAME)
        if not entry or not self._names_another(pod, entry, claim):
            return False
        if not self._warned:
            self._warned = True
            log.warning(_DUPLICATE, f"{pod.namespace}/{pod.name}", entry)
        if "allocation" in claim.status:
            return False
        live = await self._client.get(PODS, pod.name, pod.namespace)  # bypass the cache, which may be behind
        return bool(live["metadata"]["uid"] == pod.uid and self._names_another(CachedItem(live), entry, claim))

    def _names_another(self, pod: CachedItem[Any], entry: str, claim: CachedItem[Any]) -> bool:
        """Whether the pod's status names another existing claim for an entry."""
        for status in pod.status.get("resourceClaimStatuses") or ():
            if status["name"] == entry and (name := status.get("resourceClaimName")):
                return name != claim.name and self._claims.item(pod.namespace, name) is not None
        return False

    async def _claim_for(
        self, owner: CachedItem[Any], entry: Tree, status: Tree | None, group: CachedItem[Any] | None
    ) -> str:
        """The claim found or created; empty if the status is already correct or the group's claim is missing."""
        if status is not None:
            name = status.get("resourceClaimName")
            if not name:
                return ""  # none was needed
            claim = self._claims.item(owner.namespace, name) or await self._live_claim(owner.namespace, name)
            if claim is not None and _is_for(claim, owner, group):
                return ""
        bound = group is not None and pod_groups.has_claim_entry(group.tree, entry)
        maker = group if group is not None and bound else owner
        for claim in self.made_for[maker.uid]:
            if (claim.metadata.get("annotations") or {}).get(POD_CLAIM_NAME) == entry["name"] and not claim.deleting:
                return claim.name
        return "" if bound else await self._make(owner, entry)

    async def _live_claim(self, namespace: str, name: str) -> CachedItem[Any] | None:
        """Read a claim from the API: the cache may be behind, and a duplicate claim costs more than a read."""
        try:
            return CachedItem(await self._client.get(CLAIMS, name, namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _make(self, owner: CachedItem[Any], entry: Tree) -> str:
        template_name = entry["resourceClaimTemplateName"]
        template = self._templates.tree(owner.namespace, template_name)
        if template is None:
            try:
                template = await self._client.get(CLAIM_TEMPLATES, template_name, owner.namespace)
            except StatusError as error:
                # Upstream reads from a cache, whose errors name the resource in the singular.
                singular = f"{CLAIM_TEMPLATES.kind.lower()}.{CLAIM_TEMPLATES.group}"
                reason = f'{singular} "{template_name}" not found' if error.code == 404 else str(error)
                text = f'resource claim template "{template_name}": {reason}'
                raise StatusError({**error.status, "message": text}) from error
        wanted = template["spec"].get("metadata") or {}
        metadata: Tree = {
            "generateName": name_prefix(owner.name, entry["name"]),
            "namespace": owner.namespace,
            "annotations": {**(wanted.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [self._owner_reference(owner)],
        }
        if wanted.get("labels"):
            metadata["labels"] = wanted["labels"]
        claim = {
            "kind": "ResourceClaim",
            "apiVersion": CLAIMS.api_version,
            "metadata": metadata,
            "spec": template["spec"].get("spec") or {},
        }
        try:
            made = await self._client.create(CLAIMS, claim, owner.namespace)
        except StatusError as error:
            self._counts.record_creation(claim, "failure")
            raise StatusError({**error.status, "message": f"create ResourceClaim : {error}"}) from error
        self._counts.record_creation(claim, "success")
        self._claims.record_write(made)
        name: str = made["metadata"]["name"]
        return name

    def _owner_reference(self, owner: CachedItem[Any]) -> Tree:
        reference = owner_reference(owner.tree, blocks=False)
        is_group = owner.tree["kind"] == POD_GROUPS.kind
        return {**reference, "apiVersion": self._group_api_version} if is_group else reference

    async def _update_status(
        self, owners: Owners, owner: CachedItem[Any], known: dict[str, Tree], names: dict[str, str]
    ) -> None:
        statuses = [
            {"name": entry["name"], "resourceClaimName": names[entry["name"]]}
            if entry["name"] in names
            else known[entry["name"]]
            for entry in owner.spec["resourceClaims"]
            if entry["name"] in names or entry["name"] in known
        ]
        if self._sorts_statuses and owners is OF_PODS:
            statuses.sort(key=itemgetter("name"))
        patch = {
            "kind": owners.resource.kind,
            "apiVersion": owners.resource.api_version,
            # Use the resourceVersion that the decision is based on: concurrent writes must not be overwritten.
            "metadata": {
                "name": owner.name,
                "namespace": owner.namespace,
                "uid": owner.uid,
                "resourceVersion": owner.metadata["resourceVersion"],
            },
            "status": {"resourceClaimStatuses": statuses},
        }
        answer = await self._statuses.patch(
            owners.resource, owner.name, patch, owner.namespace, kind="apply", subresource="status", force=True
        )
        self._caches.trees(owners.resource).record_write(answer)


def _is_for(claim: CachedItem[Any], owner: CachedItem[Any], group: CachedItem[Any] | None) -> bool:
    """Whether a claim belongs to the owner or its group."""
    controller = claim.controller
    if controller is not None and controller["uid"] == owner.uid:
        return True
    return group is not None and pod_groups.owning_group(claim.tree) == group.name
