"""When a container that ended is run again, and what its state says meanwhile."""

from __future__ import annotations

from allotment.model.trees import Tree
from allotment.node.containers import Waiting


def restart_delay(restarts: int, ran: float) -> float:
    """Seconds before a container is run again: 10, 20, 40 … 300; one that ran ten minutes starts anew (kubelet)."""
    return 0.0 if restarts == 0 or ran > 600 else float(min(10 * 2 ** (restarts - 1), 300))


def crash_loop(pod: Tree, name: str, delay: float) -> Waiting:
    """The state of a container that failed and is to run again after ``delay`` seconds."""
    meta = pod["metadata"]
    where = f"pod={meta['name']}_{meta.get('namespace', '')}({meta.get('uid', '')})"
    told = f"back-off {go_seconds(delay)} restarting failed container={name} {where}"
    return Waiting("CrashLoopBackOff", told)


def start_delay(failures: int, reason: str) -> float:
    """Seconds before the start of a container is tried again: ever more for an image, else the kubelet's usual ten."""
    return float(min(10 * 2 ** (failures - 1), 300)) if reason.startswith("ErrImage") else 10.0


def go_seconds(seconds: float) -> str:
    """A whole number of seconds as Go prints a duration.

    >>> go_seconds(10), go_seconds(160), go_seconds(300)
    ('10s', '2m40s', '5m0s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
