"""ResourceClaim controller: generates claims from templates, reserves them for bound pods, releases unused ones.

A pod's claim is created as soon as the pod exists; its name is written to the pod's status, where scheduler and kubelet
read it. A claim stays reserved for a pod until the pod is finished or deleted; a terminating pod keeps it while it may
still run. When the last consumer is gone, the allocation is removed in the same write and the finalizer in the next; a
generated claim is then deleted, a user's claim stays (KEP-4381).

With the feature gate, PodGroups have claims as well: they are created with the group, and stay reserved for it until it
is deleted (KEP-5729).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

from allotment.cluster.cache import Cache, Changed
from allotment.cluster.cached_item import CachedItem, by_uid
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, POD_GROUPS, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.claim_counts import ClaimCounts
from allotment.controllers.generated_claims import OF_GROUPS, OF_PODS, Generator
from allotment.controllers.pods import is_finished
from allotment.controllers.release import controller_release
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree

_MOST_CONSUMERS: Final = 256
_MAX_DELETED_UIDS: Final = 500


class _Key(NamedTuple):
    kind: Literal["pod", "group", "claim"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def resource_claims(features: Features, counts: ClaimCounts | None = None) -> Program:
    """Create the ResourceClaim controller. ``counts``: counts the claims that it creates and knows."""

    async def run(context: ProgramContext) -> None:
        await _ResourceClaims(context, features, counts or ClaimCounts()).run()

    return run


class _ResourceClaims:
    def __init__(self, context: ProgramContext, features: Features, counts: ClaimCounts) -> None:
        self._client = context.client_for("resource-claim-controller")
        self._observing, self._stopping = context.observing, context.stopping
        self._pods = context.caches.trees(PODS)
        self._claims = context.caches.trees(CLAIMS)
        self._templates = context.caches.trees(CLAIM_TEMPLATES)
        # Without the gates they are not served.
        has_groups = features.enabled(pod_groups.GATE) or (
            controller_release(features).pods_await_groups and pod_groups.are_groups_enabled(features)
        )
        self._groups = context.caches.trees(POD_GROUPS) if has_groups else None
        self._generator = Generator(context, features, counts)
        counts.items = self._claims.items()
        self._made_for = self._generator.made_for
        self._pod_of_uid = self._pods.index("uid", by_uid)
        self._lacking = self._pods.index("template", _templates_of)
        self._members = self._pods.index("group", _group_key)
        if self._groups is not None:
            self._group_of_uid = self._groups.index("uid", by_uid)
            self._groups_lacking = self._groups.index("template", _templates_of)
        self._deleted: OrderedDict[str, int] = OrderedDict()
        """Recently deleted pods and groups (uid), and the number of restores of the cluster at that time."""
        self._queue: WorkQueue[_Key] = WorkQueue(
            "resource_claim", self._sync, clock=context.clock, random=context.random, workers=64
        )
        context.observing.gauge("queue", self._queue.name, self._queue.__len__)

    async def run(self) -> None:
        watches: list[tuple[Cache[Any], Changed[Any]]] = [
            (self._templates, self._template_changed),
            (self._claims, self._claim_changed),
        ]
        if self._groups is not None:
            watches.append((self._groups, self._group_changed))
        await run_queues([self._queue], [*watches, (self._pods, self._pod_changed)], self._stopping)

    # --- events --------------------------------------------------------------------------------------

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        pod = new or old
        assert pod is not None
        if not pod.spec.get("resourceClaims") and "extendedResourceClaimStatus" not in pod.status:
            return
        if new is None:
            self._record_deleted(pod.uid)
        elif old is not None and _relevant_pod_state(old) == _relevant_pod_state(new):
            return
        if new is None or new.deleting or is_finished(new):
            self._enqueue_claims(pod)
        else:
            self._queue.add(_Key("pod", pod.namespace, pod.name))

    def _group_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            if old is not None and old.spec.get("resourceClaims"):
                self._record_deleted(old.uid)
                self._enqueue_claims(old)
            return
        if old is not None and old.uid == new.uid and _names_in(old) == _names_in(new):
            return
        if new.spec.get("resourceClaims"):
            self._queue.add(_Key("group", new.namespace, new.name))
        # Also pods of a group without claims wait for it.
        for pod in self._members[new.key]:
            self._queue.add(_Key("pod", pod.namespace, pod.name))

    def _claim_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            # If the pod or group of the claim still exists, it needs a new claim.
            owner = old.controller if old else None
            for pod in self._pod_of_uid[owner["uid"]] if owner else ():
                self._queue.add(_Key("pod", pod.namespace, pod.name))
            if old is not None and owner is not None and self._groups is not None:
                for group in self._group_of_uid[owner["uid"]]:
                    self._queue.add(_Key("group", group.namespace, group.name))
                for pod in self._members[old.namespace, pod_groups.owning_group(old.tree)]:
                    self._queue.add(_Key("pod", pod.namespace, pod.name))
        elif (old is None or _relevant_claim_state(old) != _relevant_claim_state(new)) and any(
            _relevant_claim_state(new)
        ):
            self._queue.add(_Key("claim", new.namespace, new.name))
            if old is None and new.controller is not None:
                for pod in self._pod_of_uid[new.controller["uid"]]:
                    self._enqueue_spare_claims(pod)

    def _template_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            for pod in self._lacking[new.key]:
                self._queue.add(_Key("pod", pod.namespace, pod.name))
            for group in self._groups_lacking[new.key] if self._groups is not None else ():
                self._queue.add(_Key("group", group.namespace, group.name))

    def _enqueue_claims(self, user: CachedItem[Any]) -> None:
        """Enqueue the claims of a pod or group, which may no longer use them."""
        for name in _claim_names(user):
            self._queue.add(_Key("claim", user.namespace, name))
        for claim in self._made_for[user.uid]:
            self._queue.add(_Key("claim", claim.namespace, claim.name))

    def _enqueue_spare_claims(self, pod: CachedItem[Any]) -> None:
        if self._made_for.count(pod.uid) > len(pod.spec.get("resourceClaims") or ()):
            self._enqueue_claims(pod)

    def _record_deleted(self, uid: str) -> None:
        self._deleted[uid] = self._claims.restored
        if len(self._deleted) > _MAX_DELETED_UIDS:
            self._deleted.popitem(last=False)

    def _is_deleted(self, uid: str) -> bool:
        """Whether a pod or group is known to be deleted; restoring a backup clears this knowledge."""
        return self._deleted.get(uid) == self._claims.restored

    async def _sync(self, key: _Key) -> None:
        with self._observing.work(f"sync_{key.kind}", str(key)):
            if key.kind == "pod":
                await self._sync_pod(key)
            elif key.kind == "group":
                await self._sync_group(key)
            else:
                await self._sync_claim(key)

    # --- pods and groups ------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: _Key) -> None:
        pod = self._pods.item(key.namespace, key.name)
        if pod is None or pod.deleting or is_finished(pod):
            return
        group = None
        if self._groups is not None and (name := pod_groups.group_name(pod.spec)):
            group = self._groups.item(pod.namespace, name)
            if group is None:
                return  # the group determines which claims are the pod's own
        if await self._generator.complete(OF_PODS, pod, group):
            return
        self._enqueue_spare_claims(pod)
        if pod.spec.get("nodeName"):
            await self._reserve_all(pod, group)

    async def _sync_group(self, key: _Key) -> None:
        group = self._groups.item(key.namespace, key.name) if self._groups is not None else None
        if group is not None and not group.deleting:
            await self._generator.complete(OF_GROUPS, group)

    async def _reserve_all(self, pod: CachedItem[Any], group: CachedItem[Any] | None) -> None:
        """Reserve the allocated claims of a pod that was created with a node; nothing is allocated here."""
        shared = set() if group is None else set(_claim_names(pod, group))
        for name in _claim_names(pod):
            claim = self._claims.item(pod.namespace, name)
            if claim is None or "allocation" not in claim.status or claim.deleting:
                continue
            users = claim.status.get("reservedFor") or []
            if pod_groups.is_consumer(users, pod.uid, group.name if group else "") or len(users) >= _MOST_CONSUMERS:
                continue
            user: Tree = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            if group is not None and name in shared:
                user = pod_groups.consumer_reference(group.tree)
            await self._write_status(claim, {**claim.status, "reservedFor": [*users, user]})

    # --- claims ---------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: _Key) -> None:
        claim = self._claims.item(key.namespace, key.name)
        if claim is None:
            return
        users: list[Tree] = claim.status.get("reservedFor") or []
        kept = [user for user in users if await self._is_using(claim.namespace, user)]
        held = FINALIZER in (claim.metadata.get("finalizers") or ())
        if len(kept) < len(users) or (claim.deleting and not kept and "allocation" in claim.status):
            status = {field: value for field, value in claim.status.items() if field != "reservedFor"}
            if kept:
                status["reservedFor"] = kept
            elif held:
                status.pop("allocation", None)
                status.pop("devices", None)
            claim = CachedItem(await self._write_status(claim, status))
            if held and not kept:
                claim = CachedItem(await self._remove_finalizer(claim))
        elif claim.deleting and held and not kept:
            claim = CachedItem(await self._remove_finalizer(claim))
        if not kept and not claim.deleting:
            await self._delete_if_done(claim)

    async def _is_using(self, namespace: str, user: Tree) -> bool:
        """Whether a consumer may still use the claim; always true for kinds other than pods and groups."""
        if self._groups is not None and pod_groups.is_group(user):
            return await self._find_user(self._groups, POD_GROUPS, namespace, user) is not None
        if user.get("apiGroup") or user["resource"] != "pods":
            return True
        pod = await self._find_user(self._pods, PODS, namespace, user)
        return pod is not None and not (is_finished(pod) or (pod.deleting and not pod.spec.get("nodeName")))

    async def _find_user(
        self, known: Cache[Any], resource: Resource, namespace: str, user: Tree
    ) -> CachedItem[Any] | None:
        """The consumer, or None; one missing in the cache is read from the API unless known to be deleted."""
        found = known.item(namespace, user["name"])
        if found is None or found.uid != user["uid"]:
            if self._is_deleted(user["uid"]):
                return None
            found = await self._live(resource, namespace, user["name"])
        return found if found is not None and found.uid == user["uid"] else None

    async def _live(self, resource: Resource, namespace: str, name: str) -> CachedItem[Any] | None:
        try:
            return CachedItem(await self._client.get(resource, name, namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _delete_if_done(self, claim: CachedItem[Any]) -> None:
        """Delete a generated claim if its pod is done or uses another, without the garbage collector."""
        owner = claim.controller
        if owner is None or owner["kind"] != "Pod" or owner["apiVersion"] != "v1":
            return
        for pod in self._pod_of_uid[owner["uid"]]:
            if not is_finished(pod) and not await self._generator.is_spare(claim, pod):
                return
        if not self._pod_of_uid[owner["uid"]] and not self._is_deleted(owner["uid"]):
            live = await self._live(PODS, claim.namespace, owner["name"])
            if live is not None and live.uid == owner["uid"] and not is_finished(live):
                return
        try:
            revision = claim.metadata["resourceVersion"]  # fails if a consumer has started to use it
            await self._client.delete(CLAIMS, claim.name, claim.namespace, uid=claim.uid, revision=revision)
        except StatusError as error:
            if error.code != 404:
                raise

    async def _remove_finalizer(self, claim: CachedItem[Any]) -> Tree:
        rest = [finalizer for finalizer in claim.metadata["finalizers"] if finalizer != FINALIZER]
        metadata = {**claim.metadata, "finalizers": rest}
        if not rest:
            del metadata["finalizers"]
        return await self._write({**claim.tree, "metadata": metadata})

    async def _write_status(self, claim: CachedItem[Any], status: Tree) -> Tree:
        return await self._write({**claim.tree, "status": status}, "status")

    async def _write(self, tree: Tree, subresource: str = "") -> Tree:
        answer = await self._client.update(CLAIMS, tree, subresource=subresource)
        self._claims.record_write(answer)
        return answer


def _group_key(pod: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    """Index key of a pod with claims: the namespace and name of its group."""
    if pod.spec.get("resourceClaims") and (name := pod_groups.group_name(pod.spec)):
        yield pod.namespace, name


def _templates_of(owner: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    """Index keys of an owner that waits for templates: those whose status names no claim yet."""
    entries = owner.spec.get("resourceClaims")
    if not entries:
        return
    known = {status["name"] for status in owner.status.get("resourceClaimStatuses") or ()}
    for entry in entries:
        template = entry.get("resourceClaimTemplateName")
        if template and entry["name"] not in known:
            yield owner.namespace, template


def _names_in(owner: CachedItem[Any]) -> dict[str, str]:
    """The claim names in a status, by entry."""
    statuses = owner.status.get("resourceClaimStatuses") or ()
    return {status["name"]: status.get("resourceClaimName") or "" for status in statuses}


def _claim_names(user: CachedItem[Any], group: CachedItem[Any] | None = None) -> Iterator[str]:
    """The existing claims that a pod or group uses; with ``group``, those of a pod's group."""
    known = _names_in(user)
    for entry in user.spec.get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or known.get(entry["name"])
        if name and (group is None or pod_groups.has_claim_entry(group.tree, entry)):
            yield name
    extended = user.status.get("extendedResourceClaimStatus") if group is None else None
    if extended:
        yield extended["resourceClaimName"]


def _relevant_pod_state(pod: CachedItem[Any]) -> tuple[object, ...]:
    """The fields of a pod that affect its claims."""
    return (
        pod.deleting,
        pod.spec.get("nodeName"),
        is_finished(pod),
        pod.status.get("resourceClaimStatuses"),
        pod.status.get("extendedResourceClaimStatus"),
    )


def _relevant_claim_state(claim: CachedItem[Any]) -> tuple[object, ...]:
    """The fields of a claim whose change requires a sync."""
    return claim.deleting, claim.status.get("reservedFor"), claim.controller
