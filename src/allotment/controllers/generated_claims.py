"""Claims made from templates, one for each entry of a pod or of a PodGroup, and told in the owner's status.

Both go the same way (KEP-4381, KEP-5729): what the status names and is there stays, what was made and never told is
found by its owner and annotation, and else a new one is made. A pod whose entry is its group's gets the group's claim
told instead, as soon as there is one.

Two controllers should never be at work; where they are (a second copy without a Lease, Kubernetes' own beside ours),
both make a claim. What a pod was told first then stays, for it may be on its way with that, and the other is spare.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import Item, by_controller
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Context
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, POD_GROUPS, PODS
from allotment.controllers.pods import owner_reference
from allotment.model import pod_groups
from allotment.model.generated_claims import POD_CLAIM_NAME, name_prefix
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_COMPONENT: Final = "resource-claim-controller"
_TWO: Final = (
    "pod %s has two claims for %s: another controller makes claims, too, and one must go. Kubernetes' own goes"
    " with kube-controller-manager --controllers=*,-resourceclaim-controller; copies of this one want --leader-elect"
)


class Owners(NamedTuple):
    """What claims are made for. ``entry``: what events call an entry of theirs."""

    resource: Resource
    entry: str


OF_PODS: Final = Owners(PODS, "PodResourceClaim")
OF_GROUPS: Final = Owners(POD_GROUPS, "PodGroupResourceClaim")


class Generator:
    """Makes claims. What it is asked for may be asked again at any time."""

    def __init__(self, context: Context) -> None:
        self._client = context.client_for(_COMPONENT)
        # The names of claims in a status have a manager of their own, so that applying them touches nothing else.
        self._statuses = context.client_for(_COMPONENT, "ResourceClaimController")
        self._recorder = context.recorder("resource_claim")
        self._caches = context.caches
        self._claims = context.caches.trees(CLAIMS)
        self._templates = context.caches.trees(CLAIM_TEMPLATES)
        self._warned = False
        self.made_for = self._claims.index("controller", by_controller)

    async def complete(self, owners: Owners, owner: Item[Any], group: Item[Any] | None = None) -> bool:
        """Make what an owner lacks and tell it; whether there was anything to tell. ``group``: a pod's.

        Raises StatusError, after an event about the entry that is the trouble.
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
            await self._tell(owners, owner, known, names)
        return bool(names)

    async def is_spare(self, claim: Item[Any], pod: Item[Any]) -> bool:
        """Whether a claim that was made for a pod, and has no devices, is in its way: the pod uses another one."""
        entry = (claim.metadata.get("annotations") or {}).get(POD_CLAIM_NAME)
        if not entry or not self._names_another(pod, entry, claim):
            return False
        if not self._warned:
            self._warned = True
            log.warning(_TWO, f"{pod.namespace}/{pod.name}", entry)
        if "allocation" in claim.status:
            return False
        live = await self._client.get(PODS, pod.name, pod.namespace)  # past the cache, which may be behind
        return bool(live["metadata"]["uid"] == pod.uid and self._names_another(Item(live), entry, claim))

    def _names_another(self, pod: Item[Any], entry: str, claim: Item[Any]) -> bool:
        """Whether a pod was told another claim for an entry, and that is there."""
        for status in pod.status.get("resourceClaimStatuses") or ():
            if status["name"] == entry and (name := status.get("resourceClaimName")):
                return name != claim.name and self._claims.item(pod.namespace, name) is not None
        return False

    async def _claim_for(self, owner: Item[Any], entry: Tree, status: Tree | None, group: Item[Any] | None) -> str:
        """The claim that was found or made; empty when the status is right already, or the group's is still to come."""
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

    async def _live_claim(self, namespace: str, name: str) -> Item[Any] | None:
        """Past the cache, which may be behind: a second claim for the same entry would be worse than a read."""
        try:
            return Item(await self._client.get(CLAIMS, name, namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _make(self, owner: Item[Any], entry: Tree) -> str:
        template_name = entry["resourceClaimTemplateName"]
        template = self._templates.tree(owner.namespace, template_name)
        if template is None:
            try:
                template = await self._client.get(CLAIM_TEMPLATES, template_name, owner.namespace)
            except StatusError as error:
                text = f'resource claim template "{template_name}": {error}'
                raise StatusError({**error.status, "message": text}) from error
        wanted = template["spec"].get("metadata") or {}
        metadata: Tree = {
            "generateName": name_prefix(owner.name, entry["name"]),
            "namespace": owner.namespace,
            "annotations": {**(wanted.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [owner_reference(owner.tree, blocks=False)],
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
            raise StatusError({**error.status, "message": f"create ResourceClaim : {error}"}) from error
        self._claims.noted(made)
        name: str = made["metadata"]["name"]
        return name

    async def _tell(self, owners: Owners, owner: Item[Any], known: dict[str, Tree], names: dict[str, str]) -> None:
        statuses = [
            {"name": entry["name"], "resourceClaimName": names[entry["name"]]}
            if entry["name"] in names
            else known[entry["name"]]
            for entry in owner.spec["resourceClaims"]
            if entry["name"] in names or entry["name"] in known
        ]
        patch = {
            "kind": owners.resource.kind,
            "apiVersion": owners.resource.api_version,
            # Whoever was faster is not contradicted: the resourceVersion is that on which this was decided.
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
        self._caches.trees(owners.resource).noted(answer)


def _is_for(claim: Item[Any], owner: Item[Any], group: Item[Any] | None) -> bool:
    """Whether a claim is the owner's, or that of its group."""
    controller = claim.controller
    if controller is not None and controller["uid"] == owner.uid:
        return True
    return group is not None and pod_groups.owning_group(claim.tree) == group.name
