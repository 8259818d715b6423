"""The requests of ``claim_requests.yaml``, and the manifests of their workloads."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_FILE = Path(__file__).with_suffix(".yaml")
_API = {"Pod": "v1", "Deployment": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}


class ClaimRequest(NamedTuple):
    """A request in plain words. ``arguments``: those of ``allot claim``; ``since``: the first release that has it."""

    phrase: str
    arguments: tuple[str, ...]
    fleet: str
    kind: str
    replicas: int
    containers: tuple[str, ...]
    needs_hardware: bool
    since: str

    def manifest(self, nodes: tuple[str, ...] = (), name: str = "app") -> str:
        """The workload without devices, as YAML; ``nodes``: those that its pods may run on."""
        spec: dict[str, Any] = {
            "containers": [{"name": container, "image": "registry.k8s.io/pause:3.10"} for container in self.containers]
        }
        if nodes:
            expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        tree: dict[str, Any] = {"apiVersion": _API[self.kind], "kind": self.kind, "metadata": {"name": name}}
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        match self.kind:
            case "Pod":
                tree["spec"] = spec
            case "Job":
                spec["restartPolicy"] = "Never"
                tree["spec"] = {"parallelism": self.replicas, "completions": self.replicas, "template": template}
            case _:
                replicas = {"replicas": self.replicas} if self.kind == "Deployment" else {}
                tree["spec"] = {**replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        return yaml.safe_dump(tree, sort_keys=False)


@cache
def claim_requests() -> tuple[ClaimRequest, ...]:
    """All requests."""
    return tuple(map(_request, yaml.safe_load(_FILE.read_text())))


def _request(entry: dict[str, Any]) -> ClaimRequest:
    kind, _, replicas = str(entry.get("workload", "Pod")).partition(" ")
    return ClaimRequest(
        entry["phrase"],
        tuple(shlex.split(entry["arguments"])),
        entry["fleet"],
        kind,
        int(replicas or 1),
        tuple(entry.get("containers", ("main",))),
        entry.get("needs_hardware", False),
        entry.get("since", ""),
    )
