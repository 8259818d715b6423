"""Pauses a lab and shifts its clocks, and checks that no node and no pod is lost, and that the lab still works.

``python -m tests.storm.pauses``. The lab runs faster than real time, so that a pause of minutes takes seconds; the
grace period of nodes and the tolerations of pods pass several times while the lab is observed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from allotment.model.trees import Tree
from tests import preload
from tests.polling import until
from tests.storm.faults import PAUSE_FAULTS
from tests.storm.lab_program import FAULT
from tests.storm.process import LabProcess

SPEED: Final = 60
_FLEET: Final = "t4-4x-pcie:3"
_PODS: Final = "/api/v1/namespaces/default/pods"
_NODES: Final = "/api/v1/nodes"
#: Simulated seconds of observation: the grace period of nodes (50 s) and the tolerations (300 s), and more.
_OBSERVED: Final = 420.0
#: The library that shifts clocks.
CLOCKS: Final = Path(__file__).with_name("clock_offsets.c")


class Disrupted(AssertionError):
    """Raised when a node or pod was disrupted."""


class PausedLab:
    """A lab with a pod on each node; ``disruptions``: what happened to them."""

    def __init__(self, folder: Path, library: Path, fault: str = "") -> None:
        self._lab = LabProcess(folder, _FLEET, ("--http", "--speed", str(SPEED)), module="tests.storm.lab_program")
        self._fault = fault
        self._offsets = folder / "offsets"
        self._library = library
        self._wall = self._monotonic = 0.0
        self.disruptions: list[str] = []

    async def run(
        self, pauses: Mapping[str, Callable[[PausedLab], Awaitable[None]]], *, observed: float = _OBSERVED
    ) -> None:
        """Pause the lab in each way, then observe it for some simulated seconds. Raises Disrupted."""
        self._shift()
        offsets = {"LD_PRELOAD": str(self._library), "CLOCK_OFFSETS": str(self._offsets)}
        self._lab.start({**offsets, FAULT: self._fault})
        try:
            async with ClientSession(self._lab.url, timeout=ClientTimeout(total=None)) as client:
                for number in range(6):
                    await self._create(client, f"early-{number}")
                await until(lambda: self._all_run(client, 6), lambda: self._state(client))
                watches = [asyncio.create_task(self._watch(client, path)) for path in (_PODS, _NODES)]
                for name, pause in pauses.items():
                    await asyncio.sleep(20 / SPEED)
                    await pause(self)
                    await asyncio.sleep(observed / SPEED)
                    if self.disruptions:
                        raise Disrupted(f"{name}: {', '.join(self.disruptions[:5])}")
                    await self._create(client, f"after-{len(name)}-{name.replace(' ', '-')}")
                    count = 7 + list(pauses).index(name)
                    await until(partial(self._all_run, client, count), lambda: self._state(client))
                for watch in watches:
                    watch.cancel()
            if self._lab.first_traceback():
                raise Disrupted(self._lab.first_traceback())
        finally:
            self._lab.kill()

    # --- pauses ------------------------------------------------------------------------------------------------------

    async def stop(self, seconds: float) -> None:
        """Stop the process for some simulated seconds, as SIGSTOP or a debugger does."""
        self._lab.send(signal.SIGSTOP)
        await asyncio.sleep(seconds / SPEED)
        self._lab.send(signal.SIGCONT)

    async def suspend(self, seconds: float) -> None:
        """Stop the process, and advance both clocks, as if it was stopped for this time."""
        self._lab.send(signal.SIGSTOP)
        self._shift(wall=seconds, monotonic=seconds)
        self._lab.send(signal.SIGCONT)

    async def set_wall_clock(self, seconds: float) -> None:
        """Shift the wall clock only, as after a suspended machine, or by an administrator."""
        self._shift(wall=seconds)

    def _shift(self, *, wall: float = 0.0, monotonic: float = 0.0) -> None:
        self._wall += wall
        self._monotonic += monotonic
        data = struct.pack("=2q", int(self._wall * 1e9), int(self._monotonic * 1e9))
        with self._offsets.open("r+b" if self._offsets.exists() else "wb") as file:  # the same file: it is mapped
            file.write(data)

    # --- observation -------------------------------------------------------------------------------------------------

    async def _create(self, client: ClientSession, name: str) -> None:
        container = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
        pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        async with client.post(_PODS, json=pod) as answer:
            assert answer.status == 201, await answer.text()

    async def _all_run(self, client: ClientSession, count: int) -> bool:
        pods = await self._list(client)
        return len(pods) == count and all(_is_ready(pod) for pod in pods)

    async def _state(self, client: ClientSession) -> str:
        return ", ".join(f"{pod['metadata']['name']}: {pod['status'].get('phase')}" for pod in await self._list(client))

    async def _list(self, client: ClientSession) -> list[Tree]:
        async with client.get(_PODS) as answer:
            return list((await answer.json())["items"])

    async def _watch(self, client: ClientSession, path: str) -> None:
        """Note every change by which a node or pod is lost; a watch that ends is resumed."""
        revision = "0"
        while True:
            with suppress(ClientError):
                parameters = {"watch": "true", "resourceVersion": revision}
                async with client.get(path, params=parameters) as answer:
                    async for line in answer.content:
                        event = json.loads(line)
                        revision = event["object"]["metadata"]["resourceVersion"]
                        self._note(event)

    def _note(self, event: Tree) -> None:
        found = event["object"]
        name = found["metadata"]["name"]
        if event["type"] == "DELETED" or "deletionTimestamp" in found["metadata"]:
            self.disruptions.append(f"{name} is deleted")
        elif found["kind"] == "Node" and (not _is_ready(found) or found["spec"].get("taints")):
            self.disruptions.append(f"{name} is not ready: {found['spec'].get('taints')}")
        elif found["kind"] == "Pod" and name.startswith("early-") and not _is_ready(found):
            self.disruptions.append(f"{name} is not ready")


#: The pauses by name.
PAUSES: Final[Mapping[str, Callable[[PausedLab], Awaitable[None]]]] = {
    "stopped for 60 s": lambda lab: lab.stop(60),
    "suspended for 60 s": lambda lab: lab.suspend(60),
    "suspended for 10 min": lambda lab: lab.suspend(600),
    "wall clock 3 h ahead": lambda lab: lab.set_wall_clock(3 * 3600),
    "wall clock 6 h back": lambda lab: lab.set_wall_clock(-6 * 3600),
}


def _is_ready(tree: Tree) -> bool:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def main() -> int:
    """Pause a lab in all ways, and print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.pauses", description=__doc__)
    parser.add_argument("--fault", choices=list(PAUSE_FAULTS), default="", help="plant a fault, to be noticed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pauses-") as folder:
        library = preload.compiled(CLOCKS, Path(folder))
        if library is None:
            sys.stderr.write("NOT TESTED: pauses, because this requires Linux and a C compiler\n")
            return 3
        try:
            asyncio.run(PausedLab(Path(folder), library, arguments.fault).run(PAUSES))
        except Disrupted as error:
            sys.stderr.write(f"BROKEN: {error}\n")
            return 1
    sys.stdout.write(f"{len(PAUSES)} pauses, no node and no pod lost: {', '.join(PAUSES)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
