"""Whether a container is up, ready and alive, as its probes say.

A startup probe holds the others back until it succeeds. Readiness makes the pod's condition; a liveness or startup
probe that fails often enough has the container ended, and its restart policy does the rest.
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
    """A probe of a container. ``failed(text)``: tell it; ``changed()``: its word counts now; ``kill(kind)``: end it."""

    kind: Kind
    spec: Tree
    container: Container
    pod_ip: str
    failed: Callable[[str], None]
    changed: Callable[[], None]
    kill: Callable[[Tree, str], None]

    async def run(self) -> None:
        """Probe until there is nothing more to say, for as long as this run of the container lasts."""
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
        """Its word counts; whether that was the last one."""
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
    """The probes that a container has."""
    for kind in _KINDS:
        if spec := container.spec.get(f"{kind}Probe"):
            yield Probe(kind, spec, container, pod_ip, failed, changed, kill)
