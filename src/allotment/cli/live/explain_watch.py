"""``allot explain --watch``: prints the answer again when it changes, until the named objects have their devices."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Final

from allotment.api.clusters.live import LiveSource
from allotment.api.explain import answer, kinds_for, prepare_errors
from allotment.api.named_objects import subject_of
from allotment.api.question import Question
from allotment.cli.next_step import without_other_commands
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.clock import Clock
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.inspection.snapshot import served_resources
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InputError
from allotment.explanation import Explanation
from allotment.model.server_facts import ServerFacts, facts_among

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

#: Changes arrive in groups: a pod, its claim, its status.
_SETTLE_SECONDS: Final = 0.3


def follow(question: Question, name: str, show: Callable[[Explanation], None]) -> None:
    """Print the answer, and again whenever it changes, until the named objects are placed or the user interrupts."""
    source = question.cluster.source
    assert isinstance(source, LiveSource)

    async def work(client: HttpClient, _: ClusterTarget) -> None:
        await _follow(question, name, source, client, show)

    source.run(work)


async def _follow(
    question: Question, name: str, source: LiveSource, client: HttpClient, show: Callable[[Explanation], None]
) -> None:
    kinds = kinds_for(name)
    first = await source.read_with(client, kinds)  # report errors before the watch starts
    facts = facts_among(first.cluster) or ServerFacts()
    discovery = await discover(client)
    caches = Caches(client, clock=Clock(), random=Random())
    changed = asyncio.Event()
    followed = [
        caches.trees(resource)
        for resource, _ in served_resources(discovery, kinds)
        if resource.plural not in facts.unread
    ]
    for cache in followed:
        cache.on_change(lambda old, new: changed.set())
    following = asyncio.create_task(caches.run())
    try:
        await all_synced(*followed)
        last: Explanation | None = None
        while True:
            changed.clear()
            trees = [
                {**item.tree, "apiVersion": cache.resource.api_version, "kind": cache.resource.kind}
                for cache in followed
                for item in sorted(cache.items(), key=lambda item: item.key)
            ]
            found = question.with_cluster(source.inputs(facts, trees))
            now = _answer_or_nothing(replace(found, prepare_errors=await prepare_errors(client, found, name)), name)
            if now != last:
                if last is not None:
                    sys.stdout.write(f"\n--- {datetime.now().astimezone():%H:%M:%S} ---\n")
                show(now)
                sys.stdout.flush()
            last = now
            if _is_served(found, name):
                return
            await changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
    finally:
        following.cancel()
        await asyncio.wait([following])  # the watch ends before the connection closes


def _is_served(question: Question, name: str) -> bool:
    """Return whether the named objects have their devices; always false without a name."""
    if question.manifests is not None:
        return False
    try:
        subject = subject_of(name, question.namespace, question.inputs.cluster)
    except InputError:
        return False
    return subject is not None and subject.served


def _answer_or_nothing(question: Question, name: str) -> Explanation:
    """Return the answer, or none for a missing pod: a watch continues until it exists."""
    try:
        return without_other_commands(answer(question, name))
    except InputError as mistake:
        return Explanation(notes=(mistake.message,))
