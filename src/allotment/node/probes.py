"""Startup, liveness and readiness probes.

The other probes wait until the startup probe succeeds. Readiness sets the pod's condition; a liveness or startup probe
that reaches its failure threshold terminates the container, and the restart policy applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from allotment.model.trees import Tree
from allotment.node.containers import Container
from allotment.node.probe_actions import attempt

Kind = Literal["startup", "liveness", "readiness"]
_KINDS: Final[tuple[Kind, ...]] = ("startup", "liveness", "readiness")


class Probe(NamedTuple):
    """A container's probe. Callbacks: ``failed(text)``, ``changed()`` on a new result, ``kill(spec, kind)``."""

    kind: Kind
    spec: Tree
    container: Container
    pod_ip: str
    failed: Callable[[str], None]
    changed: Callable[[], None]
    kill: Callable[[Tree, str], None]

    async def run(self) -> None:
        """Probe the container until the result is final or the task is cancelled."""
        container, clock, spec = self.container, self.container.clock, self.spec
        if self.kind != "startup":
            await container.up.wait()
        await clock.sleep(spec.get("initialDelaySeconds") or 0)
        good = bad = 0
        while True:
            seconds = spec.get("timeoutSeconds") or 1
            outcome = await attempt(spec, container, self.pod_ip, seconds=seconds, clock=container.timeout_clock)
            if not outcome.ok:
                self.failed(f"{self.kind.capitalize()} probe failed: {outcome.message}")
            good, bad = (good + 1, 0) if outcome.ok else (0, bad + 1)
            if (good >= (spec.get("successThreshold") or 1) or bad >= (spec.get("failureThreshold") or 3)) and (
                self._settled(outcome.ok)
            ):
                return
            await clock.sleep(spec.get("periodSeconds") or 10)

    def _settled(self, ok: bool) -> bool:
        """Apply a result that reached its threshold; True if it is final."""
        if self.kind == "readiness":
            if self.container.ready != ok:
                self.container.ready = ok
                self.changed()
            return False
        if not ok:
            self.kill(self.spec, self.kind)
            return True
        if self.kind == "startup":
            self.container.up.set()
            self.container.ready = not self.container.spec.get("readinessProbe")
            self.changed()
            return True
        return False


def probes_of(
    container: Container, pod_ip: str, *, failed: Callable[[str], None], changed: Callable[[], None],
    kill: Callable[[Tree, str], None],
) -> Iterator[Probe]:  # fmt: skip
    """The probes of a container."""
    for kind in _KINDS:
        if spec := container.spec.get(f"{kind}Probe"):
            yield Probe(kind, spec, container, pod_ip, failed, changed, kill)
