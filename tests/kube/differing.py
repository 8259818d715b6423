"""``python -m tests.kube.differing --seconds N --seed S``: worlds at random, decided by kube-scheduler and by us.

Each pod is tried twice in the very same state of a real cluster: by kube-scheduler and by our scheduler, one after the
other; the devices of one of them stay, and the next pod comes. Beside, ``explain`` is asked of the state before. All
must agree: on whether the pod has a place, on its devices where the node is the same, on Kubernetes' sentence where
there is none, and on nothing being given away twice. A world in which they do not is made as small as it gets.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from random import Random
from typing import Any, Final, NamedTuple

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
)
from allotment.engine import Inventory
from allotment.engine.cluster.layout import available
from allotment.engine.refusal import NO_NODES
from allotment.model.core import Node
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree
from allotment.scheduler.program import Options, scheduler
from allotment.tools.doctor.reading import read
from allotment.tools.explain import Answer, explain
from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer
from tests.acting import condition
from tests.kube.flows import FEATURES, prepared
from tests.kube.ours import at_work
from tests.kube.random_worlds import NAMESPACE, PRIVILEGED, World, drawn

THEIRS: Final = "default-scheduler"
OURS: Final = "allotment"
_KINDS: Final = {one.kind: one for one in (NODES, SLICES, DEVICE_CLASSES, TAINT_RULES, CLAIMS, CLAIM_TEMPLATES, PODS)}
#: Of what a world leaves behind, in the order in which it goes.
_ORDER: Final = (PODS, CLAIMS, CLAIM_TEMPLATES, TAINT_RULES, SLICES, DEVICE_CLASSES, NODES)
_ADMIN: Final = {"resource.kubernetes.io/admin-access": "true"}
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
#: Seconds for a scheduler to say something, and for what it said at first to be put right when the other disagrees: it
#: may have been told of a device after the pod, and tries again after a while.
_PATIENCE: Final = 15.0
_AGAIN: Final = 2.5
#: kube-scheduler gives up a search after ten seconds; where it has to look for long, ours need not.
_LONG: Final = "timed out trying to allocate devices"
#: What differs in each message by its nature.
_GENERATED: Final = re.compile(r"\b(w\d+-p\d+-(?:c\d|extended-resources))-[a-z0-9]{5}\b")


class Outcome(NamedTuple):
    """What came of a pod. ``given``: the results of each claim that was allocated for it, in the pod's order;
    ``whole``: their allocations, less what is new every time, and what the pod's status says of extended resources."""

    node: str = ""
    given: tuple[tuple[str, ...], ...] = ()
    whole: str = ""
    reason: str = ""
    message: str = ""

    @property
    def sentence(self) -> str:
        """Kubernetes' words, which come last, without names that were drawn."""
        return _GENERATED.sub(r"\1-*", self.message.splitlines()[-1] if self.message else "")

    def shown(self) -> str:
        """One line."""
        return f"{self.node}: {list(self.given)}" if self.node else f"{self.reason or 'silent'}: {self.sentence}"


class Difference(NamedTuple):
    """``kind`` stays the same while a world is made smaller."""

    kind: str
    pod: str
    told: str


class Stuck(Exception):
    """What a pod had is not given back."""


class Place:
    """The cluster that is used by one world after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.counts: Counter[str] = Counter()

    async def begin(self) -> None:
        """The namespaces, with their accounts."""
        for name, labels in ((NAMESPACE, {}), (PRIVILEGED, _ADMIN)):
            await self.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
            async with asyncio.timeout(_PATIENCE):
                while not await self._there(SERVICE_ACCOUNTS, "default", name):
                    await asyncio.sleep(0.02)

    async def played(self, world: World) -> list[Difference]:
        """All differences in one world, which is gone afterwards."""
        self.counts["worlds"] += 1
        try:
            await self._set_up(world.cluster)
            specs = [pod["spec"] for pod in world.pods]
            again = [spec in specs[:number] for number, spec in enumerate(specs)]
            found = [one for pod, equal in zip(world.pods, again, strict=True) for one in await self._pod(pod, equal)]
            return [*found, *await self._given_twice()]
        except Stuck as error:
            return [Difference("left behind", "", str(error))]
        finally:
            await self.clear()

    async def _set_up(self, cluster: Sequence[Tree]) -> None:
        for kinds in (
            ("Node", "DeviceClass", "DeviceTaintRule"),
            ("ResourceSlice",),
            ("ResourceClaim", "ResourceClaimTemplate"),
        ):
            await asyncio.gather(*(self._create(tree) for tree in cluster if tree["kind"] in kinds))
        await asyncio.sleep(0.02)

    async def _create(self, tree: Tree) -> None:
        kind = _KINDS[tree["kind"]]
        try:
            await self.client.create(kind, tree, tree["metadata"].get("namespace", ""))
        except StatusError as error:
            self.counts[f"refused: {tree['kind']}: {error}"[:240]] += 1
            return
        if kind == NODES:  # admission holds every new node back until somebody has seen it ready
            await self.client.patch(
                NODES, tree["metadata"]["name"], {"spec": {"taints": tree["spec"]["taints"] or None}}
            )

    # --- one pod -----------------------------------------------------------------------------------------------------

    async def _pod(self, pod: Tree, again: bool) -> list[Difference]:
        before = await self._state()
        names = {one["metadata"]["name"] for one in before if one["kind"].startswith("ResourceClaim")}
        wanted = [
            e.get("resourceClaimName") or e.get("resourceClaimTemplateName") for e in pod["spec"]["resourceClaims"]
        ]
        if not names.issuperset(wanted):
            return []  # the API server did not want them
        first, second = (THEIRS, OURS) if pod["metadata"]["labels"]["stays"] == "ours" else (OURS, THEIRS)
        found = {first: await self._tried(pod, first, before)}
        await self._undone(pod, before)
        found[second] = await self._tried(pod, second, before)
        theirs, ours = found[THEIRS], found[OURS]
        self.counts["pods"] += 1
        self.counts["bound" if theirs.node else theirs.reason or "silent"] += 1
        if _LONG in theirs.message or not (theirs.node or theirs.reason):
            self.counts["kube-scheduler searches for too long"] += 1
            return []
        # A scheduler that had not heard of everything comes to its senses.
        if _disagree(theirs, ours) and not found[second].node:
            found[second] = await self._again(pod, before, found[second])
        if _disagree(found[THEIRS], found[OURS]) and not found[first].node:
            await self._undone(pod, before)
            found[first] = await self._again(pod, before, await self._tried(pod, first, before))
            if found[first].node:
                await self._undone(pod, before)
                found[second] = await self._tried(pod, second, before)
        if not found[second].node:  # else what comes may help it, and it would be in the way
            await self._undone(pod, before)
        theirs, ours = found[THEIRS], found[OURS]
        name = pod["metadata"]["name"]
        differences = [Difference(kind, name, told) for kind, told in self._compared(theirs, ours, again)]
        differences += [Difference(kind, name, told) for kind, told in self._explained(pod, before, theirs)]
        return differences

    def _compared(self, theirs: Outcome, ours: Outcome, again: bool) -> Iterator[tuple[str, str]]:
        both = f"kube-scheduler: {theirs.shown()}\n    ours:           {ours.shown()}"
        if bool(theirs.node) != bool(ours.node):
            yield ("kube-scheduler alone binds" if theirs.node else "ours alone binds"), both
        elif theirs.node:
            if theirs.node == ours.node:
                self.counts["same node"] += 1
                self.counts["same devices"] += theirs.given == ours.given
                if theirs.given != ours.given:
                    yield "other devices", both
                elif theirs.whole != ours.whole:
                    yield "other allocation", f"{theirs.whole}\n    {ours.whole}"
        elif theirs.reason != ours.reason:
            yield "other reason", both
        elif theirs.sentence != ours.sentence:
            if again:  # ours says to equal pods what it found for the first of them, while nothing helps them
                self.counts["sentence of an equal pod"] += 1
            elif theirs.reason == "SchedulerError":  # which of several errors is told is a matter of chance
                self.counts["other error"] += 1
            else:
                yield "other sentence", both
        else:
            self.counts["same sentence"] += 1

    def _explained(self, pod: Tree, before: Sequence[Tree], theirs: Outcome) -> Iterator[tuple[str, str]]:
        answer = answered(pod, before, theirs.node)
        devices = f"{answer.node}: {_of(answer)}"
        if theirs.node:
            if not answer.fits:
                yield "explain refuses", f"{theirs.shown()}\n    explain: {_code(answer)}"
            elif theirs.given != _of(answer):
                yield "explain gives others", f"{theirs.shown()}\n    explain: {devices}"
            return
        if answer.fits and not _of_other_things(theirs.sentence):
            yield "explain finds a place", f"{theirs.shown()}\n    explain: {devices}"
        elif not answer.fits:
            self.counts[f"cause {_code(answer).partition(':')[0]}"] += 1
            if not _same_cause(_code(answer), theirs):
                yield "other cause", f"{theirs.shown()}\n    explain: {_code(answer)}"

    async def _tried(self, pod: Tree, by: str, before: Sequence[Tree]) -> Outcome:
        """What a scheduler makes of a pod."""
        tree = copy.deepcopy(pod)
        tree["spec"]["schedulerName"] = by
        await self.client.create(PODS, tree, pod["metadata"]["namespace"])
        return await self._settled(
            pod, before, _PATIENCE, lambda made: bool(made["spec"].get("nodeName") or condition(made))
        )

    async def _again(self, pod: Tree, before: Sequence[Tree], found: Outcome) -> Outcome:
        """What becomes of a pod that waits, in a while."""

        def other(made: Tree) -> bool:
            return bool(made["spec"].get("nodeName")) or condition(made).get("message", "") != found.message

        self.counts["waited again"] += 1
        return await self._settled(pod, before, _AGAIN, other)

    async def _settled(
        self, pod: Tree, before: Sequence[Tree], patience: float, done: Callable[[Tree], bool]
    ) -> Outcome:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        made: Tree = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not done(made := await self.client.get(PODS, name, namespace)):
                    await asyncio.sleep(0.01)
        told = condition(made)
        if not made["spec"].get("nodeName"):
            return Outcome(reason=told.get("reason", ""), message=told.get("message", ""))
        claims = {tree["metadata"]["name"]: tree for tree in (await self.client.list(CLAIMS, namespace)).items}
        had = {tree["metadata"]["name"] for tree in before if _allocated(tree)}
        names = [one.get("resourceClaimName") or _made_for(made, one["name"]) for one in pod["spec"]["resourceClaims"]]
        new = [claims[one] for one in names if one not in had]
        new += [one for one in claims.values() if _EXTENDED in _notes(one) and _owner(one) == name]
        return Outcome(made["spec"]["nodeName"], tuple(map(_results, new)), _whole(new, made))

    async def _undone(self, pod: Tree, before: Sequence[Tree]) -> None:
        """As it was before the pod: claims of its own are gone, others are free again."""
        metadata = pod["metadata"]
        await self._gone(PODS, metadata)
        names = {tree["metadata"]["name"]: _allocated(tree) for tree in before if tree["kind"] == "ResourceClaim"}
        latest = time.monotonic() + _PATIENCE
        while True:
            claims = (await self.client.list(CLAIMS, metadata["namespace"])).items
            new = [tree for tree in claims if tree["metadata"]["name"] not in names]
            other = [tree for tree in claims if _allocated(tree) != names.get(tree["metadata"]["name"], False)]
            if not new and not other:
                break
            if time.monotonic() > latest:
                raise Stuck(f"{metadata['name']}: {', '.join(tree['metadata']['name'] for tree in [*new, *other])}")
            for tree in new:
                await self._gone(CLAIMS, tree["metadata"])
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)

    async def _state(self) -> list[Tree]:
        """Everything that decides over pods."""
        kinds = (NODES, SLICES, DEVICE_CLASSES, TAINT_RULES, CLAIMS, CLAIM_TEMPLATES, NAMESPACES)
        listed = await asyncio.gather(*(self.client.list(kind) for kind in kinds))
        return [
            {**tree, "kind": kind.kind, "apiVersion": f"{kind.group}/{kind.version}".lstrip("/")}
            for kind, listing in zip(kinds, listed, strict=True)
            for tree in listing.items
        ]

    async def _given_twice(self) -> list[Difference]:
        """What is wrong with all that has been given in the end."""
        return [Difference("given twice", "", told) for told in overdrawn(read(await self._state()).values)]

    # --- the end of a world ------------------------------------------------------------------------------------------

    async def clear(self) -> None:
        """Nothing is left but the namespaces."""
        for kind in _ORDER:
            async with asyncio.timeout(_PATIENCE * 2):
                while left := (await self.client.list(kind)).items:
                    await asyncio.gather(*(self._gone(kind, tree["metadata"]) for tree in left))

    async def _gone(self, kind: Resource, metadata: Tree) -> None:
        name, namespace = metadata["name"], metadata.get("namespace", "")
        with suppress(StatusError):
            await self.client.delete(kind, name, namespace, grace_seconds=0)
            if metadata.get("finalizers"):  # nobody uses it, and whoever would free it may need a moment to see that
                await self.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)

    async def _there(self, kind: Resource, name: str, namespace: str) -> bool:
        with suppress(StatusError):
            await self.client.get(kind, name, namespace)
            return True
        return False


# --- what is said of it ----------------------------------------------------------------------------------------------


def answered(pod: Tree, before: Sequence[Tree], node: str = "") -> Answer:
    """What ``explain`` says of a pod in a cluster; if it may go to one node only."""
    tree = copy.deepcopy(pod)
    tree["metadata"]["uid"] = "explained"
    if node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        tree["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
    values = read([*before, tree]).values
    return next(one for one in explain(values, FEATURES, tries=0).answers if one.kind == "Pod")


def overdrawn(values: Sequence[Object]) -> Iterator[str]:
    """Devices with two owners, counters and capacities of which more is taken than there is."""
    nodes = [one for one in values if isinstance(one, Node)]
    inventory = Inventory.of(
        FEATURES, nodes=[(one.metadata.name, one.metadata.labels) for one in nodes],
        slices=[one for one in values if isinstance(one, ResourceSlice)],
        classes=[one for one in values if isinstance(one, DeviceClass)],
        claims=[one for one in values if isinstance(one, ResourceClaim)],
        taint_rules=[one for one in values if isinstance(one, DeviceTaintRule)],
    )  # fmt: skip
    usage = inventory.usage
    for device, holders in usage.exclusive.items():
        if len(holders) > 1 or device in usage.shares:
            yield f"{device} belongs to {holders}"
    for node in nodes:
        view = inventory.view(node.metadata.name)
        if any(left < 0 for left in available(view.layout, view.state(usage))):
            yield f"counters of {node.metadata.name} are overdrawn"
        for record in view.records:
            if any(left < 0 for left in usage.remaining(record.id, record.traits.limits).values()):
                yield f"capacity of {record.id} is overdrawn"


def _disagree(theirs: Outcome, ours: Outcome) -> bool:
    return (bool(theirs.node), theirs.reason, theirs.sentence) != (bool(ours.node), ours.reason, ours.sentence)


def _code(answer: Answer) -> str:
    assert answer.reasons is not None
    headline = answer.reasons.headline
    return f"{headline.code}: {headline.summary}"


def _of_other_things(sentence: str) -> bool:
    """Whether a node may be refused for what explain does not look at."""
    return any(
        word in sentence
        for word in ("Insufficient", "Too many pods", "topology spread", "pod affinity", "anti-affinity")
    )


#: Words of kube-scheduler that name a cause, and the codes that are this cause.
_NAMED: Final = (
    ("does not exist", {"class-missing"}),
    ("resourceclaim not available on the node", {"claim-on-other-node", "node-not-eligible"}),
    ("exceeds the claim limit", {"too-many-devices"}),
)


def _same_cause(code: str, theirs: Outcome) -> bool:
    word = code.partition(":")[0]
    if theirs.reason == "SchedulerError":
        return True
    if "cannot allocate all claims" in theirs.sentence:  # a selector may fail of which it never came to ask
        return word not in {"class-missing", "claim-missing", "template-missing", "too-many-devices"}
    if _of_other_things(theirs.sentence):
        return True
    return all(word in codes for words, codes in _NAMED if words in theirs.sentence)


def _allocated(tree: Tree) -> bool:
    return bool((tree.get("status") or {}).get("allocation"))


def _made_for(pod: Tree, entry: str) -> str:
    statuses = pod["status"].get("resourceClaimStatuses") or ()
    return str(next(one["resourceClaimName"] for one in statuses if one["name"] == entry))


def _results(claim: Tree) -> tuple[str, ...]:
    """Each device with what it was asked for, and what is taken of it."""
    results = ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
    return tuple(
        f"{one['request']}={one['driver']}/{one['pool']}/{one['device']}{_share(one.get('consumedCapacity') or {})}"
        for one in results
    )


def _of(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """The same of what explain would give."""
    return tuple(
        tuple(f"{one.request}={one.driver}/{one.pool}/{one.device}{_share(one.share)}" for one in claim.devices)
        for claim in answer.claims
        if not claim.before
    )


def _whole(claims: Sequence[Tree], pod: Tree) -> str:
    allocations = copy.deepcopy([one["status"].get("allocation") or {} for one in claims])
    for allocation in allocations:
        allocation.pop("allocationTimestamp", None)
        for result in (allocation.get("devices") or {}).get("results") or ():
            if "shareID" in result:
                result["shareID"] = "new"
    extended = (pod["status"].get("extendedResourceClaimStatus") or {}).get("requestMappings")
    return json.dumps([*allocations, extended], sort_keys=True)


def _share(amounts: dict[str, str]) -> str:
    return "".join(f" {key}={value}" for key, value in sorted(amounts.items()))


def _notes(tree: Tree) -> Tree:
    found: Tree = tree["metadata"].get("annotations") or {}
    return found


def _owner(tree: Tree) -> str:
    return str(next((one["name"] for one in tree["metadata"].get("ownerReferences") or ()), ""))


# --- smaller worlds --------------------------------------------------------------------------------------------------


def smaller(world: World) -> Iterator[World]:
    """The world without one thing: large things first."""
    tree = [world.cluster, world.pods]
    for path in sorted(_removable(tree), key=len):
        less = copy.deepcopy(tree)
        *way, last = path
        at: Any = less
        for step in way:
            at = at[step]
        del at[last]
        if less[1]:
            yield World(*less)


#: Maps of which an entry can be left out.
_MAPS: Final = {"attributes", "capacity", "counters", "requests", "labels"}
#: Fields that can be left out.
_FIELDS: Final = {
    "taints", "tolerations", "selectors", "constraints", "capacity", "count", "allocationMode", "nodeSelector",
    "affinity", "topologySpreadConstraints", "bindsToNode", "requestPolicy", "adminAccess", "extendedResourceName",
    "allowMultipleAllocations", "consumesCounters", "sharedCounters", "unschedulable", "limits", "claims",
}  # fmt: skip


def _removable(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, list):
        for number, one in enumerate(tree):
            if path:
                yield (*path, number)
            yield from _removable(one, (*path, number))
    elif isinstance(tree, dict):
        for key, one in tree.items():
            if (path[-1] in _MAPS or key in _FIELDS) and key not in ("world", "stays"):
                yield (*path, key)
            yield from _removable(one, (*path, key))


def renamed(world: World, old: str, new: str) -> World:
    """The same, of another name, so that nobody takes it for the one before."""
    return World(*json.loads(json.dumps(list(world)).replace(old, new)))


async def shrunk(place: Place, world: World, kind: str, seconds: float) -> tuple[World, Difference]:
    """The smallest world found in a time with such a difference. Raises LookupError if it does not come again."""
    latest = time.monotonic() + seconds
    number = 0

    async def differs(one: World) -> Difference | None:
        nonlocal number
        number += 1
        found = await place.played(renamed(one, _NAME, f"w{number:05d}s"))
        return next((one for one in found if one.kind == kind and NO_NODES not in one.told), None)

    last = await differs(world)
    if last is None:
        raise LookupError(f"{kind}: did not come again")
    progress = True
    while progress and time.monotonic() < latest:
        progress = False
        for less in smaller(world):
            if time.monotonic() > latest:
                break
            found = await differs(less)
            if found is not None:
                world, last, progress = less, found, True
                break
    return world, last


# --- the program -----------------------------------------------------------------------------------------------------

#: How worlds are called when they are drawn.
_NAME: Final = "w00000"


def cluster(paths: dict[str, str]) -> AbstractContextManager[ApiServer]:
    """Kubernetes, where pods stay that tolerate too little: kube-scheduler may place them all the same."""
    return prepared(paths, theirs=True, without=["device-taint-eviction-controller"])


@asynccontextmanager
async def place_on(running: ApiServer) -> AsyncIterator[Place]:
    """The cluster with both schedulers."""
    ours = {"scheduler": scheduler(Options(FEATURES, name=OURS, settle=0.0))}
    async with at_work(running, ours) as client:
        place = Place(client)
        await place.begin()
        yield place


def world_of(seed: int) -> World:
    """The world of a seed."""
    return drawn(Random(seed), _NAME)


async def searched(
    place: Place, seeds: Sequence[int] | range, seconds: float, say: Callable[[str], None]
) -> dict[int, list[Difference]]:
    """The differences by seed, until the time is over."""
    latest = time.monotonic() + seconds
    found: dict[int, list[Difference]] = {}
    for seed in seeds:
        if time.monotonic() > latest:
            break
        differences = await place.played(renamed(world_of(seed), _NAME, f"w{seed % 100000:05d}"))
        if differences:
            found[seed] = differences
        for difference in differences:
            say(f"seed {seed}, {difference.pod}: {difference.kind}\n    {difference.told}")
    return found


async def _run(running: ApiServer, arguments: argparse.Namespace) -> int:
    async with place_on(running) as place:
        seeds = range(arguments.seed, arguments.seed + arguments.worlds)
        found = await searched(place, seeds, arguments.seconds, _say)
        seen: set[str] = set()
        for seed, kind in ((seed, one.kind) for seed, differences in found.items() for one in differences):
            if not arguments.shrink or kind in seen:
                continue
            seen.add(kind)
            try:
                world, last = await shrunk(place, world_of(seed), kind, arguments.shrink)
            except LookupError as error:
                _say(f"seed {seed}: {error}")
                continue
            _say(f"seed {seed}, smallest: {last.kind}\n    {last.told}")
            for tree in (*world.cluster, *world.pods):
                _say(f"  {json.dumps(tree)}")
        for what, count in place.counts.most_common():
            _say(f"{count:6d} {what}")
    return 1 if found else 0


def main() -> int:
    """Search; 1 if something differs, 2 if the programs are not there."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.differing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first world; the next has the next (%(default)s)")
    parser.add_argument("--worlds", type=int, default=1_000_000, help="at most so many")
    parser.add_argument("--shrink", type=float, default=0.0, help="seconds to make the first of a kind smaller")
    arguments = parser.parse_args()
    paths = programs()
    if paths is None:
        sys.stderr.write(f"{', '.join(missing())} not found: `python -m tests.kube.binaries` builds them\n")
        return 2
    with cluster(paths) as running:
        return asyncio.run(_run(running, arguments))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
