"""``allot wait``: waits until objects have a condition or value, or are deleted; reports why not."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from allotment.cli.inputs.durations import Deadline, seconds
from allotment.cli.live.connection import namespace_of, on_cluster, refusal
from allotment.cli.live.resource_arguments import ResourceArgument, resource_arguments
from allotment.cli.output.errors import Failure
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.object_watch import states
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.lab.wait_conditions import condition, describe_state
from allotment.model.jsonpath import EvaluationError, Template, TemplateError, parse, relax, text_of
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

Test = Callable[[Tree | None], bool]


def run(arguments: Namespace) -> int:
    """Wait; return 1 on timeout."""
    test = test_of(arguments.condition)
    limit = seconds(arguments.timeout)
    return on_cluster(arguments, lambda client, way: _Wait(arguments, client, way, test, limit).run())


def test_of(text: str) -> Test:
    """Return the predicate of ``--for`` for an object. Raises Failure.

    >>> test_of("condition=Ready")({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    True
    """
    word, _, rest = text.partition("=")
    if text.lower() == "delete":
        return lambda tree: tree is None
    if text.lower() == "create":
        return lambda tree: tree is not None
    if word.lower() == "condition" and rest:
        type_, _, wanted = rest.partition("=")
        return lambda tree: _has_condition(tree, type_, wanted or "true")
    if word.lower() == "jsonpath" and rest:
        path, equals, wanted = _path_and_value(rest)
        try:
            template = parse(relax(path))
        except TemplateError as error:
            raise Failure(f"error: error parsing jsonpath {path}, {error}") from None
        return lambda tree: _has_value(tree, template, wanted if equals else None)
    raise Failure(
        f'error: unrecognized condition: "{text}"',
        "known: condition=TYPE[=STATUS], jsonpath='{.path}'[=VALUE], create, delete",
    )


def _path_and_value(text: str) -> tuple[str, bool, str]:
    """Split ``{.a[?(@.b=="c")]}=d`` at the equals sign after the braces."""
    end = text.rfind("}") + 1
    path, equals, value = text[end:].partition("=")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return text[:end] + path, bool(equals), value


def _has_condition(tree: Tree | None, type_: str, wanted: str) -> bool:
    found = condition(tree or {}, type_)
    seen, now = found.get("observedGeneration"), ((tree or {}).get("metadata") or {}).get("generation")
    if seen is not None and now is not None and seen < now:
        return False  # the condition is of an earlier generation of the object
    return str(found.get("status", "")).lower() == wanted.lower()


def _has_value(tree: Tree | None, template: Template, wanted: str | None) -> bool:
    try:
        found = [value for values in template.results(tree or {}) for value in values]
    except EvaluationError:  # for example an index in a list that is still empty
        return False
    return bool(found) if wanted is None else any(text_of(value) == wanted for value in found)


class _Wait:
    def __init__(self, arguments: Namespace, client: HttpClient, way: ClusterTarget, test: Test, limit: float) -> None:
        self._arguments = arguments
        self._client = client
        self._namespace = namespace_of(arguments, way)
        self._test = test
        self._limit = limit

    async def run(self) -> int:
        targets = await self._targets()
        if not targets and self._arguments.condition.lower() == "delete":
            return 0  # all are deleted
        if not targets:
            sys.stderr.write("error: no matching resources found\n")
            return 1
        deadline = Deadline(self._limit if self._limit >= 0 else 7 * 24 * 3600)
        outcomes = await asyncio.gather(*(self._one(target, deadline) for target in targets))
        return 0 if all(outcomes) else 1

    async def _targets(self) -> list[ResourceArgument]:
        arguments = self._arguments
        targets: list[ResourceArgument] = []
        for argument in resource_arguments(await discover(self._client), arguments.objects):
            if argument.name:
                targets.append(argument)
                continue
            if not (arguments.all or arguments.selector):
                raise Failure("error: resource(s) were provided, but no name was specified", "or specify --all or -l")
            place = argument.place(self._namespace)
            listing = await self._client.list(argument.served.resource, place, labels=arguments.selector or "")
            targets += (ResourceArgument(argument.served, tree["metadata"]["name"]) for tree in listing.items)
        return targets

    async def _one(self, target: ResourceArgument, deadline: Deadline) -> bool:
        seen: Tree | None = None
        looked = False
        may_be_missing = self._test(None) or self._arguments.condition.lower() == "create"
        try:
            async with asyncio.timeout(None if self._limit == 0 else deadline.left()):
                place = target.place(self._namespace)
                async for tree in states(self._client, target.served.resource, place, target.name):
                    seen = tree if tree is not None else seen
                    if self._test(tree):
                        sys.stdout.write(f"{target.served.label}/{target.name} condition met\n")
                        sys.stdout.flush()
                        return True
                    if tree is None and not may_be_missing and not looked:
                        await self._client.get(
                            target.served.resource, target.name, place
                        )  # the server's message is the most precise one
                    looked = True
                    if self._limit == 0:
                        break
        except StatusError as error:
            sys.stderr.write(refusal(error) + "\n")
            return False
        except TimeoutError:
            pass
        object_name = f"{target.served.plural_label}/{target.name}"
        why = f"\n  {describe_state(seen)}" if not may_be_missing else ""
        sys.stderr.write(f"error: timed out waiting for the condition on {object_name}{why}\n")
        return False
