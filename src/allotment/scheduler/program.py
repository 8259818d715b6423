"""The scheduler as a program: what the cluster tells goes into the state, decisions are made on it, writes go out.

One task decides; nothing else changes the state while it does, for there are no threads. Binding takes its time
beside it, many at once, and each decision is booked before the next is made. See `attempt` for how a node is found,
`queue` for who comes next, `binding` for what is written, `telling` for what pods hear.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache, Item, all_synced
from allotment.cluster.client import Client
from allotment.cluster.election import LeaderElection
from allotment.cluster.observing import Work
from allotment.cluster.program import Context, Program
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DISRUPTION_BUDGETS, PODS
from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_group
from allotment.placing.demand import Demands
from allotment.placing.machines import Machines
from allotment.placing.resident import resident_of
from allotment.scheduler import preemption, sentence
from allotment.scheduler.attempt import Attempts, Chosen, Failed, NoNode
from allotment.scheduler.beside import Beside
from allotment.scheduler.binding import Binder, NotBound
from allotment.scheduler.grouping import Grouping
from allotment.scheduler.guards import Guards
from allotment.scheduler.happenings import OF_SURROUNDINGS, Happening, helped_by
from allotment.scheduler.holding import Held
from allotment.scheduler.ledger import EXTENDED, KnownClaim, Ledger
from allotment.scheduler.pods import Hold, WaitingPod, claims_of
from allotment.scheduler.queue import Queue
from allotment.scheduler.rivals import Rivals
from allotment.scheduler.sending import Sender
from allotment.scheduler.settling import Settling
from allotment.scheduler.surroundings import Surroundings
from allotment.scheduler.telling import Teller, condition_patch
from allotment.scheduler.verdict import Verdict
from allotment.scheduler.yielding import Yielding

Tree = dict[str, Any]
_log = logging.getLogger(__name__)

DEFAULT_NAME: Final = "default-scheduler"
_NOBODY: Final = ObjectKey("", "")
#: Bindings at a time; more decisions wait until some of them are done.
_BINDINGS: Final = 128
#: Decisions after which everybody else has a turn.
_IN_A_ROW: Final = 16


class Options(NamedTuple):
    """``name`` is what pods have as ``schedulerName``."""

    features: Features
    name: str = DEFAULT_NAME
    binding_seconds: float = 600.0
    """How long devices may take to get ready."""
    identity: str = ""
    """Of this copy, where several run and only one may lead; empty where there is no other."""
    settle: float | None = None
    """Seconds that a decision settles before its pod is bound, for the sake of other schedulers; 0 where each has
    devices of its own. None: none where no other is seen at work, else as long as it seems to need."""


def scheduler(options: Options) -> Program:
    """The program."""

    async def run(context: Context) -> None:
        if not options.identity:
            await Scheduler(context, options).run()
            return
        election = LeaderElection(
            context.client_for("kube-scheduler"), options.name, options.identity, clock=context.clock,
            random=context.random,
        )  # fmt: skip
        await election.run(lambda: Scheduler(context, options).run())

    return run


class Scheduler:
    """One scheduler and all that it knows."""

    def __init__(self, context: Context, options: Options) -> None:
        self._options = options
        self._clock = context.clock
        self._client: Client = context.client_for("kube-scheduler")
        self._recorder = context.recorder(options.name)
        self._observing, self._stopping = context.observing, context.stopping
        caches = context.caches
        self._pods = caches.trees(PODS)
        self._claims = caches.trees(CLAIMS)
        self._templates = caches.trees(CLAIM_TEMPLATES)
        self._budgets = caches.trees(DISRUPTION_BUDGETS)
        self.inventory = Inventory(options.features)
        self.machines = Machines(self.inventory)
        self.ledger = Ledger(self.inventory)
        allocator = Allocator(self.inventory, share_id=lambda: str(uuid.uuid4()))
        self._surroundings = Surroundings(caches, self.inventory, self.machines, self._happens)
        self.groups = Grouping(caches, options.features, self._happens)
        self.attempts = Attempts(
            self.machines, self.ledger, allocator, options.features, self._surroundings.namespaces, self.groups,
            lambda: self._rivals.seconds() > 0,
        )  # fmt: skip
        self.queue = Queue()
        self._demands = Demands()
        self._rivals = Rivals(self._clock, options.name, options.settle)
        self._work = asyncio.Event()
        self._guards = Guards(self._client, self._clock, self.ledger, self.inventory, self._claims, self._pods)
        self._settling = Settling(self._claims, self.inventory, self._rivals, self._clock, self._work.set)
        yielding = Yielding(self._client, self._clock, self._recorder, context.observing, self._guards)
        self._beside = Beside(
            self.ledger, self.inventory, self._pods, self._clock, options.name, self._rivals, self._settling,
            node_of=lambda uid: None if uid in self._assumed else self.machines.node_of(uid),
            give_way=lambda pod, claim, text: self._start(
                yielding.give_way(pod, claim, text), f"give way {pod.name}"
            ),
        )  # fmt: skip
        self._binder = Binder(
            self._client, self.ledger, self.groups, options.features, self._clock, self._recorder, self._claims,
            self._settling, self._guards, options.binding_seconds,
        )  # fmt: skip
        self._teller = Teller(
            self._client, self.queue, self.attempts, self._clock, self._recorder, self._pods,
            busy=lambda: self.queue.busy or bool(self._assumed),
        )  # fmt: skip
        self._sender = Sender(self._client, self._teller, self._clock, self._recorder, self._pods, options.name)
        self._held = Held(
            self._clock, self._recorder, lambda: self.ledger.known,
            lambda: [ObjectKey(item.namespace, item.name) for item in self._templates.items()], self.groups,
        )  # fmt: skip
        self._happened: set[Happening] = set()
        self._assumed: dict[str, WaitingPod] = {}
        """Pods (uid) that are being bound."""
        self._users: dict[ObjectKey, set[str]] = {}
        """Held or waiting pods (uid) by the claims that they name."""
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        for which, read in (("waiting", self.queue.__len__), ("binding", self._assumed.__len__)):
            context.observing.level("queue", f"scheduler {which}", read)

    async def run(self) -> None:
        """Schedule until it is to stop; then finish what is under way."""
        watched: list[Cache[Any]] = [
            *self._surroundings.caches(),
            *self.groups.caches(),
            self._claims,
            self._templates,
            self._budgets,
            self._pods,
        ]
        if not await self._stopping.unless(all_synced(*watched)):
            return
        ends: list[Callable[[], None]] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                telling = tasks.create_task(self._teller.run(), name="telling")
                guards = tasks.create_task(self._guards.run(), name="guards")
                # In this order, so that pods find nodes, devices and claims known.
                ends += self._surroundings.follow()
                ends += self.groups.follow()
                ends += [self._claims.on_change(self._claim_changed), self._pods.on_change(self._pod_changed)]
                self._beside.begin()
                with self._stopping.telling(self._work.set):
                    await self._schedule()
                while self._under_way:
                    await asyncio.wait(self._under_way)
                telling.cancel()
                guards.cancel()
        finally:
            self._tasks = None
            self._held.close()
            for end in ends:
                end()

    # --- deciding --------------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        in_a_row = 0
        while not self._stopping.begun:
            if self._happened:
                self.queue.wake(self._happened)
                self._happened.clear()
            now = self._clock.seconds()
            due = self.queue.due(now)
            pod = self.queue.pop() if len(self._assumed) - self._settling.pods < _BINDINGS else None
            if pod is None:
                self._work.clear()
                if self._happened or self._stopping.begun:
                    continue
                alarm = self._clock.later(due - now, self._work.set) if due is not None else None
                await self._work.wait()
                if alarm is not None:
                    alarm.cancel()
                in_a_row = 0
                continue
            try:
                with self._observing.work("schedule", pod.uid) as work:
                    work.attributes["pod"] = str(pod.key)
                    self._decide(pod, work)
            except Exception as error:  # noqa: BLE001 - one pod that cannot be judged must not hold up the others
                _log.exception("pod %s", pod.key)
                self._failed(pod, f"internal error: {error}")
            in_a_row += 1
            if in_a_row >= _IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)

    def _decide(self, pod: WaitingPod, work: Work) -> None:
        claims = self._claims_of(pod)
        if isinstance(claims, Hold):
            work.result = "held"
            self._hold(pod, claims)
            return
        work.attributes["claims"] = len(claims)
        left = self.ledger.known.get(self.ledger.extended.get(pod.uid, _NOBODY))
        if left is not None:
            work.result = "discarded"
            self._discard(pod, left)
            return
        outcome = self.attempts.attempt(pod, claims, frozenset(self._binder.unusable))
        if isinstance(outcome, Chosen):
            work.result = "scheduled"
            work.attributes["node"] = outcome.node
            self._binder.plan(pod, outcome)
            self.machines.seat(pod.resident, outcome.node)
            self.attempts.nominations.pop(pod.uid, None)
            self._assumed[pod.uid] = pod
            self._teller.forget(pod.uid)
            self._start(self._carry_out(pod, outcome), f"bind {pod.key}")
        elif isinstance(outcome, Failed):
            work.result = "error"
            self._failed(pod, outcome.text, outcome)
        else:
            work.result = "unschedulable"
            self._no_node(pod, claims, outcome)

    def _discard(self, pod: WaitingPod, left: KnownClaim) -> None:
        """An earlier attempt, of a scheduler that is no more, made a claim for extended resources: it goes first."""
        nodes = len(self.machines)
        after = sentence.afterwards(sentence.DISCARDED, nodes, {sentence.NOT_HELPFUL: nodes})
        text = sentence.unavailable(nodes, {sentence.LEFT_BEHIND: nodes}, after=after)
        verdict = Verdict("Unschedulable", text)
        self._teller.tell(self.queue.park(pod, ("alone", pod.uid), verdict, helped_by({"claim"})))
        self._start(self._binder.discard(left), f"discard {left.key}")

    async def _carry_out(self, pod: WaitingPod, chosen: Chosen) -> None:
        try:
            with self._observing.work("bind", pod.uid) as work:
                work.attributes |= {"pod": str(pod.key), "node": chosen.node}
                await self._binder.bind(pod, chosen)
                work.result = "bound"
        except NotBound as error:
            del self._assumed[pod.uid]
            self._back(pod, str(error))
        except Exception as error:  # noqa: BLE001 - one pod's trouble must not end the bindings of all others
            _log.exception("binding pod %s", pod.key)
            self._binder.cancel(pod, chosen)
            del self._assumed[pod.uid]
            self._back(pod, f"internal error: {error}")
        else:
            del self._assumed[pod.uid]
            self._forget_users(pod)
            item = self._pods.item(pod.key.namespace, pod.key.name)
            if item is None or item.uid != pod.uid:
                self._pod_gone_late(pod.uid)
            for key in (*_claim_keys(pod.tree), self.ledger.extended.get(pod.uid, _NOBODY)):
                self._beside.look(key)
        self._work.set()

    def _back(self, pod: WaitingPod, text: str) -> None:
        """A pod could not be bound: it leaves the node that was chosen, and is tried again if it is still there."""
        item = self._pods.item(pod.key.namespace, pod.key.name)
        if item is not None and item.uid == pod.uid and item.spec.get("nodeName"):
            return  # it is bound, by whomever
        self.machines.unseat(pod.uid)
        self._happens(Happening.POD_GONE)
        if item is None or item.uid != pod.uid or item.deleting:
            return
        again = WaitingPod(item.tree, self._demands.of(item.spec))
        again.failures = pod.failures
        self._failed(again, text)

    def _failed(self, pod: WaitingPod, text: str, failed: Failed | None = None) -> None:
        self.attempts.nominations.pop(pod.uid, None)
        pending = failed.pending if failed is not None else ()
        verdict = Verdict("SchedulerError", text, pending, nominated="" if pod.nominated else None)
        key = self._group_of(pod)
        self.queue.back_off(pod, key, self._clock.seconds())
        self._note_users(pod)
        self._teller.tell_alone(pod, verdict)
        self._work.set()

    def _no_node(self, pod: WaitingPod, claims: list[KnownClaim], outcome: NoNode) -> None:
        key = self._group_of(pod)
        if not outcome.nodes:
            group = self.queue.park(pod, key, Verdict("Unschedulable", sentence.NO_NODES), helped_by({"nodes"}))
            self._teller.tell(group)
            return
        nominated: str | None = "" if pod.nominated else None
        if outcome.before:
            self.attempts.nominations.pop(pod.uid, None)
            after = sentence.afterwards(sentence.NO_CLAIMS, outcome.nodes, {sentence.NOT_HELPFUL: outcome.nodes})
            text = sentence.unavailable(outcome.nodes, {}, outcome.before, after)
            full = (str(outcome.full.key), len(outcome.full.users)) if outcome.full is not None else None
            group_name = self.groups.missing(pod.tree)
            verdict = Verdict("Unschedulable", text, outcome.pending, group=group_name, full=full)
        else:
            counts = sentence.counted(t for r in outcome.refusals.values() for t in r.texts)
            found = self._preempt(pod, claims, outcome)
            if isinstance(found, preemption.Victims):
                nominated = found.node
                key = ("alone", pod.uid)  # those who ask for the same have no such promise
                text = sentence.unavailable(outcome.nodes, counts)
            else:
                if isinstance(found, str):
                    nominated = None  # whoever may not preempt keeps what was promised
                text = sentence.unavailable(
                    outcome.nodes,
                    counts,
                    after=sentence.afterwards(self._free_claims(pod, claims, outcome), outcome.nodes, found),
                )
            elsewhere = tuple(str(claim.key) for claim in outcome.unavailable)
            verdict = Verdict(
                "Unschedulable", text, outcome.pending, outcome.refusals, elsewhere=elsewhere, nominated=nominated
            )
        group = self.queue.park(pod, key, verdict, helped_by(outcome.causes()))
        self._note_users(pod)
        self._teller.tell(group)

    def _free_claims(self, pod: WaitingPod, claims: list[KnownClaim], outcome: NoNode) -> str:
        """Free a claim whose devices are where the pod cannot go, if nobody else uses it."""
        for claim in outcome.unavailable:
            if all(user.get("uid") == pod.uid for user in claim.users):
                self._start(self._deallocate(claim, pod), f"deallocate {claim.key}")
                return sentence.DEALLOCATED
        # Perhaps other devices would do for the group; while none of its pods has a node, nobody uses these.
        group = self.groups.of(pod.tree)
        if group and not self.groups.is_placed(pod, self._assumed.values()):
            for claim in claims:
                if any(is_group(user) and user.get("name") == group for user in claim.users):
                    self._start(self._binder.unreserve(claim, group), f"unreserve {claim.key}")
                    return sentence.UNRESERVED
        return sentence.STILL_NOT if claims else sentence.NO_CLAIMS

    async def _deallocate(self, claim: KnownClaim, pod: WaitingPod) -> None:
        await self._binder.deallocate(claim, pod)

    # --- preemption ------------------------------------------------------------------------------------------------

    def _preempt(
        self, pod: WaitingPod, claims: list[KnownClaim], outcome: NoNode
    ) -> preemption.Victims | dict[str, int] | str:
        if pod.tree["spec"].get("preemptionPolicy") == "Never":
            return sentence.NEVER_PREEMPTS
        nominated = self.machines.by_name.get(pod.nominated) if pod.nominated else None
        if nominated is not None and any(
            other.terminating and other.preempted and other.priority < pod.priority for other in nominated.pods.values()
        ):
            return sentence.VICTIM_LEAVING
        found = preemption.choose(
            pod.resident, outcome.refusals, self.machines, [item.tree for item in self._budgets.items()],
            lambda machine: self.attempts.refusal_on(pod, claims, machine),
        )  # fmt: skip
        if found.victims is None:
            self.attempts.nominations.pop(pod.uid, None)
            return dict(found.reasons)
        self.attempts.nominations[pod.uid] = (pod, found.victims.node)
        for victim in found.victims.pods:
            self._start(
                self._sender.send_away(victim, pod, found.victims.node), f"preempt {victim.namespace}/{victim.name}"
            )
        return found.victims

    # --- what the cluster tells ------------------------------------------------------------------------------------

    def _happens(self, happening: Happening) -> None:
        self._happened.add(happening)
        if happening in OF_SURROUNDINGS:
            self._teller.cluster_changed()
        self._work.set()

    def _claim_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        if new is None:
            if old is None:
                return
            key = ObjectKey(old.namespace, old.name)
            known = self.ledger.known.get(key)
            if self.ledger.remove(key) or (
                known is not None and EXTENDED in (known.tree["metadata"].get("annotations") or ())
            ):
                self._freed(known)
            self._beside.claim_changed(known, None)
        else:
            key = ObjectKey(new.namespace, new.name)
            known = self.ledger.known.get(key)
            news = self.ledger.put(new.tree)
            self._beside.claim_changed(known, self.ledger.known[key])
            if news == "freed":
                self._freed(known)
            self._binder.changed(key)
        users = self._users.get(key)
        if users:
            self._happens(Happening.CLAIM_CHANGED)
            for uid in tuple(users):
                held = self._held.remove(uid)
                if held is not None:
                    self._enqueue(held)

    def _freed(self, claim: KnownClaim | None) -> None:
        """Devices are free. Where others are at work as well they have their turn first: two must not grab at once."""
        seconds = self._rivals.seconds()
        if not seconds or claim is None or claim.allocation is None:
            self._happens(Happening.CLAIM_FREED)
            return
        key = self.ledger.linger(claim)

        def let_go() -> None:
            self.ledger.let_go(key)
            self._happens(Happening.CLAIM_FREED)

        self._clock.later(seconds, let_go)

    def _pod_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        self._beside.pod_changed(old, new)
        if new is None:
            if old is not None:
                self._pod_gone(old)
            return
        spec, status = new.spec, new.status
        node = spec.get("nodeName")
        if status.get("phase") in ("Succeeded", "Failed"):
            self._pod_gone(new)
            return
        if node:
            self._leave_queue(new.uid)
            before = self.machines.node_of(new.uid)
            if self.machines.seat(resident_of(new.tree, self._demands.of(spec)), node):
                self._happens(Happening.POD_PLACED)
                if before is not None:
                    self._happens(Happening.POD_GONE)  # it asks for something else now, or goes
            return
        if new.uid in self._assumed or spec.get("schedulerName", DEFAULT_NAME) != self._options.name:
            return
        if new.deleting:
            self._leave_queue(new.uid)
            return
        pod = WaitingPod(new.tree, self._demands.of(spec))
        if old is not None and new.uid in self.queue and _same_wishes(old.tree, new.tree):
            if _nomination(old.tree) == pod.nominated:
                self.queue.replace(pod)
            else:
                self._nominated(pod, _nomination(old.tree))
            return
        self._held.remove(new.uid)
        self._enqueue(pod)

    def _nominated(self, pod: WaitingPod, before: str) -> None:
        """Somebody says another node of a pod that waits. It is not tried for that, but keeps the room there."""
        if pod.nominated:
            self.attempts.nominations[pod.uid] = (pod, pod.nominated)
            self.queue.set_apart(pod, self._group_of(pod))
        else:
            self.attempts.nominations.pop(pod.uid, None)
            self.queue.replace(pod)
        if before:
            self._happens(Happening.POD_GONE)

    def _pod_gone(self, item: Item[Tree]) -> None:
        self._leave_queue(item.uid)
        self._held.forget(item.uid)
        if item.uid not in self._assumed and self.machines.unseat(item.uid) is not None:
            self._happens(Happening.POD_GONE)

    def _pod_gone_late(self, uid: str) -> None:
        """A pod was deleted while it was being bound."""
        if self.machines.unseat(uid) is not None:
            self._happens(Happening.POD_GONE)

    def _leave_queue(self, uid: str) -> None:
        pod = self.queue.remove(uid) or self._held.remove(uid)
        self._teller.forget(uid)
        if self.attempts.nominations.pop(uid, None) is not None:
            self._happens(Happening.POD_GONE)
        if pod is not None:
            self._forget_users(pod)

    # --- who waits where -------------------------------------------------------------------------------------------

    def _enqueue(self, pod: WaitingPod) -> None:
        self._note_users(pod)
        if pod.gates:
            self.queue.remove(pod.uid)
            self._held.put(pod, None)
            patch = condition_patch(pod.tree, "SchedulingGated", sentence.GATED, self._clock.now())
            if patch and not _has_condition(pod.tree):
                self._start(self._say_gated(pod, patch), f"gated {pod.key}")
            return
        if pod.nominated:
            self.attempts.nominations[pod.uid] = (pod, pod.nominated)  # by this scheduler, one before it, or others
        claims = self._claims_of(pod)
        if isinstance(claims, Hold):
            self._hold(pod, claims)
            return
        group = self.queue.add(pod, self._group_of(pod))
        if group is not None:
            self._teller.tell(group)
        else:
            self._work.set()

    async def _say_gated(self, pod: WaitingPod, patch: Tree) -> None:
        await self._teller.patch(pod.key, pod.uid, patch)

    def _hold(self, pod: WaitingPod, hold: Hold) -> None:
        self.queue.remove(pod.uid)
        self._note_users(pod)
        self._held.put(pod, hold)
        for key in _claim_keys(pod.tree) if hold.code == "claim-not-owned" else ():
            known = self.ledger.known.get(key)
            if known is not None and known.guards:  # it was set aside, and the pod has not got another
                self._start(self._guards.replace(known, pod), f"replace {key}")

    def _group_of(self, pod: WaitingPod) -> Hashable:
        """Pods with equal keys would get equal answers from any node."""
        claims = self._claims_of(pod)
        if isinstance(claims, Hold) or pod.nominated or pod.uid in self.attempts.nominations:
            return ("alone", pod.uid)
        if any(claim.allocation is not None or not claim.is_made_for(pod.uid) for claim in claims):
            return ("alone", pod.uid)
        labels: Hashable = ()
        if pod.demand.social or self.machines.neighbourly:
            labels = (pod.resident.namespace, tuple(sorted(pod.resident.labels.items())))
        policy = pod.tree["spec"].get("preemptionPolicy")
        return (id(pod.demand), pod.priority, policy, labels, *(id(claim.value.spec) for claim in claims))

    def _claims_of(self, pod: WaitingPod) -> list[KnownClaim] | Hold:
        return claims_of(pod.tree, self.ledger, self.groups.of(pod.tree))

    def _note_users(self, pod: WaitingPod) -> None:
        for key in _claim_keys(pod.tree):
            self._users.setdefault(key, set()).add(pod.uid)

    def _forget_users(self, pod: WaitingPod) -> None:
        for key in _claim_keys(pod.tree):
            users = self._users.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._users[key]

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


def _claim_keys(tree: Tree) -> list[ObjectKey]:
    """The claims that a pod names, or has been given."""
    entries = tree["spec"].get("resourceClaims")
    if not entries:
        return []
    namespace = tree["metadata"].get("namespace", "")
    names = [entry.get("resourceClaimName") for entry in entries]
    names += [s.get("resourceClaimName") for s in (tree.get("status") or {}).get("resourceClaimStatuses") or ()]
    return [ObjectKey(namespace, name) for name in names if name]


def _same_wishes(old: Tree, new: Tree) -> bool:
    """Whether nothing changed that decides where a pod may go."""
    return (
        old["spec"] == new["spec"]
        and old["metadata"].get("labels") == new["metadata"].get("labels")
        and (old.get("status") or {}).get("resourceClaimStatuses")
        == (new.get("status") or {}).get("resourceClaimStatuses")
    )


def _nomination(tree: Tree) -> str:
    return str((tree.get("status") or {}).get("nominatedNodeName") or "")


def _has_condition(tree: Tree) -> bool:
    return any(c.get("type") == "PodScheduled" for c in (tree.get("status") or {}).get("conditions") or ())
