"""Health checks for liveness and readiness probes.

Responses have Kubernetes' format: ``ok``, or with ``?verbose`` one line for each check. A separate thread serves them,
so a blocked event loop is detected and does not delay the response.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

#: Returns why the check fails; empty if it passes.
Check = Callable[[], str]

_BEAT_SECONDS: Final = 1.0
#: A large list blocks the event loop for a while, a deadlock forever.
MAX_BLOCKED_SECONDS: Final = 20.0


class Heartbeat:
    """The heartbeat of an event loop; ``check`` may be called from any thread."""

    def __init__(self, still: float = MAX_BLOCKED_SECONDS) -> None:
        self._still = still
        self._beat = time.monotonic()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    def check(self) -> str:
        """The check of the event loop."""
        silent = time.monotonic() - self._beat
        return f"the event loop has been blocked for {silent:.0f} s" if silent > self._still else ""


class Health:
    """The checks: ``live`` must pass or the kubelet restarts the process; ``ready`` must pass, too, for readiness."""

    def __init__(self) -> None:
        self.live: dict[str, Check] = {"ping": lambda: ""}
        self.ready: dict[str, Check] = {}

    def answer(self, path: str, query: str = "") -> tuple[int, str] | None:
        """Status code and text for a path such as ``/readyz`` or ``/livez/ping``; None for an unknown path."""
        name, _, only = path.strip("/").partition("/")
        if name not in ("livez", "readyz", "healthz"):
            return None
        checks = {**self.live, **(self.ready if name == "readyz" else {})}
        if only:
            if only not in checks:
                return None
            checks = {only: checks[only]}
        parameters = parse_qs(query, keep_blank_values=True)
        excluded = set(parameters.get("exclude", ()))
        lines, passed = [], True
        for check, run_check in checks.items():
            if check in excluded:
                lines.append(f"[+]{check} excluded: ok")
            elif reason := run_check():
                passed = False
                lines.append(f"[-]{check} failed: {reason}")
            else:
                lines.append(f"[+]{check} ok")
        if passed and "verbose" not in parameters:
            return 200, "ok"
        lines.append(f"{name} check {'passed' if passed else 'failed'}")
        return (200 if passed else 500), "\n".join(lines) + "\n"
