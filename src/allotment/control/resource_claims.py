"""Claims of pods: made from templates, reserved for pods that nobody scheduled, and freed when their last user ends.

A pod's claim is made as soon as the pod is there; its name goes into the pod's status, where scheduler and kubelet look
for it. A claim stays reserved for a pod until the pod is finished or gone; a pod that is being deleted keeps it as long
as it may still run somewhere. When the last user leaves, the allocation goes with it in one write and the finalizer in
the next; what was made for a pod is then deleted, what a user made stays (KEP-4381).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

from allotment.cluster.cache import Item, by_controller, by_uid
from allotment.cluster.client import Tree
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Context, follow
from allotment.cluster.queue import WorkQueue
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, PODS
from allotment.control.pods import is_finished, owner_reference
from allotment.model.generated import POD_CLAIM_NAME, name_prefix

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_MOST_CONSUMERS: Final = 256
_REMEMBERED_UIDS: Final = 500


class _Key(NamedTuple):
    kind: Literal["pod", "claim"]
    namespace: str
    name: str


async def resource_claims(context: Context) -> None:
    """The program."""
    await _ResourceClaims(context).run()


class _ResourceClaims:
    def __init__(self, context: Context) -> None:
        self._client = context.client_for("resource-claim-controller")
        # The names of claims in a pod's status have a manager of their own, so that applying them touches nothing else.
        self._statuses = context.client_for("resource-claim-controller", "ResourceClaimController")
        self._recorder = context.recorder("resource_claim")
        self._pods = context.caches.trees(PODS)
        self._claims = context.caches.trees(CLAIMS)
        self._templates = context.caches.trees(CLAIM_TEMPLATES)
        self._made_for = self._claims.index("controller", by_controller)
        self._pod_of_uid = self._pods.index("uid", by_uid)
        self._lacking = self._pods.index("template", _templates_of)
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._queue: WorkQueue[_Key] = WorkQueue(
            "resource_claim", self._work, clock=context.clock, random=context.random, workers=64
        )

    async def run(self) -> None:
        await follow(
            [self._queue],
            [(self._templates, self._template_changed), (self._claims, self._claim_changed),
             (self._pods, self._pod_changed)],
        )  # fmt: skip

    # --- what calls for work --------------------------------------------------------------------------------------

    def _pod_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        pod = new or old
        assert pod is not None
        if not pod.spec.get("resourceClaims") and "extendedResourceClaimStatus" not in pod.status:
            return
        if new is None:
            self._gone[pod.uid] = None
            if len(self._gone) > _REMEMBERED_UIDS:
                self._gone.popitem(last=False)
        elif old is not None and _looks(old) == _looks(new):
            return
        if new is None or new.deleting or is_finished(new):
            for name in _claim_names(pod):
                self._queue.add(_Key("claim", pod.namespace, name))
            for claim in self._made_for[pod.uid]:
                self._queue.add(_Key("claim", claim.namespace, claim.name))
        else:
            self._queue.add(_Key("pod", pod.namespace, pod.name))

    def _claim_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None:
            # Its pod, if that still lives, needs another.
            owner = old.controller if old else None
            for pod in self._pod_of_uid[owner["uid"]] if owner else ():
                self._queue.add(_Key("pod", pod.namespace, pod.name))
        elif (old is None or _matters(old) != _matters(new)) and any(_matters(new)):
            self._queue.add(_Key("claim", new.namespace, new.name))

    def _template_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is not None:
            for pod in self._lacking[new.key]:
                self._queue.add(_Key("pod", pod.namespace, pod.name))

    async def _work(self, key: _Key) -> None:
        if key.kind == "pod":
            await self._sync_pod(key)
        else:
            await self._sync_claim(key)

    # --- pods -----------------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: _Key) -> None:
        pod = self._pods.item(key.namespace, key.name)
        if pod is None or pod.deleting or is_finished(pod):
            return
        known = {status["name"]: status for status in pod.status.get("resourceClaimStatuses") or ()}
        names: dict[str, str] = {}
        for entry in pod.spec.get("resourceClaims") or ():
            if not entry.get("resourceClaimTemplateName"):
                continue
            try:
                name = await self._claim_for(pod, entry, known.get(entry["name"]))
            except StatusError as error:
                text = f"PodResourceClaim {entry['name']}: {error}"
                self._recorder.event(pod.tree, "Warning", "FailedResourceClaimCreation", text)
                raise
            if name:
                names[entry["name"]] = name
        if names:
            await self._tell(pod, known, names)
        elif pod.spec.get("nodeName"):
            await self._reserve_all(pod)

    async def _claim_for(self, pod: Item[Any], entry: Tree, status: Tree | None) -> str:
        """The name of the claim that was found or made; empty when the pod's status is right already."""
        if status is not None:
            name = status.get("resourceClaimName")
            if not name:
                return ""  # none was needed
            claim = self._claims.item(pod.namespace, name)
            if claim is not None and _owned_by(claim, pod.uid):
                return ""
            if claim is None and (claim := await self._live_claim(pod.namespace, name)) and _owned_by(claim, pod.uid):
                return ""
        for claim in self._made_for[pod.uid]:
            if (claim.metadata.get("annotations") or {}).get(POD_CLAIM_NAME) == entry["name"] and not claim.deleting:
                return claim.name
        return await self._make(pod, entry)

    async def _live_claim(self, namespace: str, name: str) -> Item[Any] | None:
        """Past the cache, which may be behind: a second claim for the same entry would be worse than a read."""
        try:
            return Item(await self._client.get(CLAIMS, name, namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _make(self, pod: Item[Any], entry: Tree) -> str:
        template_name = entry["resourceClaimTemplateName"]
        template = self._templates.tree(pod.namespace, template_name)
        if template is None:
            try:
                template = await self._client.get(CLAIM_TEMPLATES, template_name, pod.namespace)
            except StatusError as error:
                text = f'resource claim template "{template_name}": {error}'
                raise StatusError({**error.status, "message": text}) from error
        wanted = template["spec"].get("metadata") or {}
        metadata: Tree = {
            "generateName": name_prefix(pod.name, entry["name"]),
            "namespace": pod.namespace,
            "annotations": {**(wanted.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [owner_reference(pod.tree, blocks=False)],
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
            made = await self._client.create(CLAIMS, claim, pod.namespace)
        except StatusError as error:
            raise StatusError({**error.status, "message": f"create ResourceClaim : {error}"}) from error
        self._claims.noted(made)
        name: str = made["metadata"]["name"]
        return name

    async def _tell(self, pod: Item[Any], known: dict[str, Tree], names: dict[str, str]) -> None:
        statuses = [
            {"name": entry["name"], "resourceClaimName": names[entry["name"]]}
            if entry["name"] in names
            else known[entry["name"]]
            for entry in pod.spec["resourceClaims"]
            if entry["name"] in names or entry["name"] in known
        ]
        patch = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "status": {"resourceClaimStatuses": statuses},
        }
        answer = await self._statuses.patch(
            PODS, pod.name, patch, pod.namespace, kind="apply", subresource="status", force=True
        )
        self._pods.noted(answer)

    async def _reserve_all(self, pod: Item[Any]) -> None:
        """For a pod that came with a node: what is allocated already may be used, nothing is allocated here."""
        for name in _claim_names(pod):
            claim = self._claims.item(pod.namespace, name)
            if claim is None or "allocation" not in claim.status or claim.deleting:
                continue
            users = claim.status.get("reservedFor") or []
            if any(user["uid"] == pod.uid for user in users) or len(users) >= _MOST_CONSUMERS:
                continue
            user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            await self._write_status(claim, {**claim.status, "reservedFor": [*users, user]})

    # --- claims ---------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: _Key) -> None:
        claim = self._claims.item(key.namespace, key.name)
        if claim is None:
            return
        users: list[Tree] = claim.status.get("reservedFor") or []
        kept = [user for user in users if await self._uses(claim.namespace, user)]
        held = FINALIZER in (claim.metadata.get("finalizers") or ())
        if len(kept) < len(users) or (claim.deleting and not kept and "allocation" in claim.status):
            status = {field: value for field, value in claim.status.items() if field != "reservedFor"}
            if kept:
                status["reservedFor"] = kept
            elif held:
                status.pop("allocation", None)
                status.pop("devices", None)
            claim = Item(await self._write_status(claim, status))
            if held and not kept:
                claim = Item(await self._let_go(claim))
        elif claim.deleting and held and not kept:
            claim = Item(await self._let_go(claim))
        if not kept and not claim.deleting:
            await self._delete_if_done(claim)

    async def _uses(self, namespace: str, user: Tree) -> bool:
        """Whether a consumer may still use the claim; of others than pods nobody knows, so they do."""
        if user.get("apiGroup") or user["resource"] != "pods":
            return True
        pod = self._pods.item(namespace, user["name"])
        if pod is None or pod.uid != user["uid"]:
            if user["uid"] in self._gone:
                return False
            pod = await self._live_pod(namespace, user["name"])
            if pod is None or pod.uid != user["uid"]:
                return False
        return not (is_finished(pod) or (pod.deleting and not pod.spec.get("nodeName")))

    async def _live_pod(self, namespace: str, name: str) -> Item[Any] | None:
        try:
            return Item(await self._client.get(PODS, name, namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _delete_if_done(self, claim: Item[Any]) -> None:
        """What was made for a pod goes when that is done, without waiting for the garbage collector."""
        owner = claim.controller
        if owner is None or owner["kind"] != "Pod" or owner["apiVersion"] != "v1":
            return
        if any(not is_finished(pod) for pod in self._pod_of_uid[owner["uid"]]):
            return
        if not self._pod_of_uid[owner["uid"]] and owner["uid"] not in self._gone:
            pod = await self._live_pod(claim.namespace, owner["name"])
            if pod is not None and pod.uid == owner["uid"] and not is_finished(pod):
                return
        try:
            await self._client.delete(CLAIMS, claim.name, claim.namespace, uid=claim.uid)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def _let_go(self, claim: Item[Any]) -> Tree:
        rest = [finalizer for finalizer in claim.metadata["finalizers"] if finalizer != FINALIZER]
        metadata = {**claim.metadata, "finalizers": rest}
        if not rest:
            del metadata["finalizers"]
        return await self._write({**claim.tree, "metadata": metadata})

    async def _write_status(self, claim: Item[Any], status: Tree) -> Tree:
        return await self._write({**claim.tree, "status": status}, "status")

    async def _write(self, tree: Tree, subresource: str = "") -> Tree:
        answer = await self._client.update(CLAIMS, tree, subresource=subresource)
        self._claims.noted(answer)
        return answer


def _templates_of(pod: Item[Any]) -> Iterator[tuple[str, str]]:
    """For the index of pods that wait for a template: those whose status does not name a claim for it yet."""
    entries = pod.spec.get("resourceClaims")
    if not entries:
        return
    known = {status["name"] for status in pod.status.get("resourceClaimStatuses") or ()}
    for entry in entries:
        template = entry.get("resourceClaimTemplateName")
        if template and entry["name"] not in known:
            yield pod.namespace, template


def _claim_names(pod: Item[Any]) -> Iterator[str]:
    """The claims that a pod uses, as far as they have names."""
    known = {status["name"]: status for status in pod.status.get("resourceClaimStatuses") or ()}
    for entry in pod.spec.get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or known.get(entry["name"], {}).get("resourceClaimName")
        if name:
            yield name
    extended = pod.status.get("extendedResourceClaimStatus")
    if extended:
        yield extended["resourceClaimName"]


def _looks(pod: Item[Any]) -> tuple[object, ...]:
    """What of a pod matters to its claims."""
    return (
        pod.deleting,
        pod.spec.get("nodeName"),
        is_finished(pod),
        pod.status.get("resourceClaimStatuses"),
        pod.status.get("extendedResourceClaimStatus"),
    )


def _matters(claim: Item[Any]) -> tuple[object, ...]:
    """What of a claim may call for work: nothing else that changes does."""
    return claim.deleting, claim.status.get("reservedFor"), claim.controller


def _owned_by(claim: Item[Any], uid: str) -> bool:
    owner = claim.controller
    return owner is not None and owner["uid"] == uid
