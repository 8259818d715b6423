"""Pods in a lab with an autoscaler: waited for, and what the cluster said where they never came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.lab.lab import Lab
from allotment.model.trees import Tree
from tests.waiting import wait_until


def until(true: Callable[[], Any], lab: Lab, seconds: float = 240.0) -> Any:
    def told() -> str:
        return "\n".join(
            f"{one['metadata']['name']}: {one['reason']}: {one.get('message') or one.get('note')}"
            for one in lab.list("events")
        )

    return wait_until(true, told, seconds)


def running(lab: Lab, number: int) -> list[Tree]:
    """The pods, when so many of them run."""

    def there() -> list[Tree] | None:
        pods = [pod for pod in lab.list("pods") if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == number else None

    found: list[Tree] = until(there, lab)
    return found
