"""Waits for pods in a lab with an autoscaler; failures show the cluster's events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.lab.lab import Lab
from allotment.model.trees import Tree
from tests.polling import wait_until


def wait_for_lab(true: Callable[[], Any], lab: Lab, seconds: float = 240.0) -> Any:
    def state() -> str:
        return "\n".join(
            f"{item['metadata']['name']}: {item['reason']}: {item.get('message') or item.get('note')}"
            for item in lab.list("events")
        )

    return wait_until(true, state, seconds)


def wait_for_running(lab: Lab, number: int) -> list[Tree]:
    """The pods, once ``number`` of them run."""

    def there() -> list[Tree] | None:
        pods = [pod for pod in lab.list("pods") if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == number else None

    found: list[Tree] = wait_for_lab(there, lab)
    return found
