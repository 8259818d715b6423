"""One container of a pod on a simulated node: its command run by the simulated shell, its output, how it ended.

A command that none of the simulated programs is, alone or in a script, stands for the application: it says so once
and then works, for ever in a pod that always restarts, for a few seconds in a job or an init container. Two annotations
of the pod tell otherwise: ``allotment.dev/run-seconds`` and ``allotment.dev/exit-code``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from allotment.node.devices import Seen
from allotment.node.journal import Journal
from allotment.node.programs import Inside, execute
from allotment.node.shell import Streams, nothing

RUN_SECONDS: Final = "allotment.dev/run-seconds"
EXIT_CODE: Final = "allotment.dev/exit-code"
#: How long an application works in a pod that is to end.
_WORK_SECONDS: Final = 5.0
_FOR_EVER: Final = 1e9
_REFERENCE: Final = re.compile(r"\$\((\w+)\)")
_KILLED: Final = 137

Tree = dict[str, Any]


class Ended(NamedTuple):
    """How a run of a container ended."""

    code: int
    started: datetime
    finished: datetime


class Container:
    """A container: at most one run at a time, and how the one before ended."""

    def __init__(self, pod: Tree, spec: Tree, inside: Inside, environment: Mapping[str, str]) -> None:
        self.name: str = spec["name"]
        self.image: str = spec.get("image", "")
        self.inside = inside
        self.environment = environment
        self.restarts = 0
        self.started: datetime | None = None
        self.ended: Ended | None = None
        self.previous: Ended | None = None
        self.journal = Journal()
        self.journal_before: Journal | None = None
        self._pod = pod
        self._words = [_resolved(word, environment) for word in (*spec.get("command", ()), *spec.get("args", ()))]

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.started is not None and self.ended is None

    async def run(self) -> Ended:
        """Run once, to the end."""
        clock = self.inside.clock
        if self.ended is not None:
            self.restarts += 1
            self.previous, self.ended = self.ended, None
            self.journal_before, self.journal = self.journal, Journal()
        self.started = started = clock.moment()
        code = _KILLED
        try:
            code = await self._main()
        finally:
            finished = clock.moment()
            self.journal.close(finished)
            self.ended = Ended(code, started, finished)
        return self.ended

    async def _main(self) -> int:
        async def write(data: bytes) -> None:
            self.journal.write(data, self.inside.clock.moment())

        streams = Streams(nothing, write, write)
        annotations = self._annotations
        if self._words and RUN_SECONDS not in annotations and EXIT_CODE not in annotations:
            inside = self.inside._replace(application=self._work)
            code = await execute(self._words, self.environment, streams, inside)
            if code is not None:
                return code
        return await self._work(self._words, streams)

    async def _work(self, words: Sequence[str], streams: Streams) -> int:
        """The application."""
        shown = " ".join(words) or "its entrypoint"
        given = ", ".join(f"{d.product} ({d.pool}/{d.name})" for d in self.inside.devices) or "no devices"
        await streams.out(f"simulated: {self.image} runs {shown} with {given}\n".encode())
        await self.inside.clock.sleep(self._seconds())
        code_text = self._annotations.get(EXIT_CODE, "0")
        return int(code_text) & 255 if code_text.isdecimal() else 1

    @property
    def _annotations(self) -> Mapping[str, str]:
        return self._pod["metadata"].get("annotations") or {}

    def _seconds(self) -> float:
        try:
            asked = float(self._annotations[RUN_SECONDS])
        except (KeyError, ValueError):
            asked = -1.0
        if 0 <= asked <= _FOR_EVER:  # a clock that is asked for "nan" or "inf" wakes nobody in order any more
            return asked
        return _FOR_EVER if _stays(self._pod, self.name) else _WORK_SECONDS


def _stays(pod: Tree, name: str) -> bool:
    """Whether a container is there to stay: a sidecar is, another init container is not, the rest as their pod is."""
    inits = pod["spec"].get("initContainers") or ()
    policy = next((spec.get("restartPolicy", "Never") for spec in inits if spec["name"] == name), None)
    return bool((policy or pod["spec"].get("restartPolicy", "Always")) == "Always")


def environment_of(pod: Tree, spec: Tree, node_ip: str, pod_ip: str, devices: tuple[Seen, ...]) -> dict[str, str]:
    """The environment of a container: what the image, Kubernetes, the driver and the manifest set, in that order."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOSTNAME": pod["metadata"]["name"],
        "HOME": "/root",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    uuids = [device.uuid for device in devices if "nvidia" in device.driver and device.uuid]
    if uuids:
        environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(uuids)
    fields = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"].get("namespace", ""),
        "metadata.uid": pod["metadata"].get("uid", ""),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.hostIP": node_ip,
    }
    for entry in spec.get("env") or ():
        source = (entry.get("valueFrom") or {}).get("fieldRef") or {}
        value = entry.get("value", fields.get(source.get("fieldPath", ""), ""))
        environment[entry["name"]] = _resolved(value, environment)
    return environment


def _resolved(text: str, environment: Mapping[str, str]) -> str:
    """``$(NAME)`` as Kubernetes replaces it in commands and values; unknown names stay."""
    return _REFERENCE.sub(lambda found: environment.get(found.group(1), found.group(0)), text)


async def stopped(tasks: list[asyncio.Task[Any]]) -> None:
    """Stop tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
