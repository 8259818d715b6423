"""An example for the help of each command whose description has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: command -> its arguments in the example.
FIRST_EXAMPLES: Final[Mapping[str, str]] = {
    "apply": "-f app.yaml",
    "catalog export": "karpenter --provider aws --gpu a100",
    "catalog list": "aws --gpu a100",
    "catalog show": "p4d.24xlarge",
    "catalog slices": "p4d.24xlarge",
    "claim show": "app.yaml",
    "delete": "pod/trainer -n ml",
    "demo": "",
    "describe": "pod/trainer -n ml",
    "down": "",
    "driver": "verify /var/lib/kubelet/plugins/gpu.example.com/dra.sock",
    "driver run": "nvidia",
    "driver verify": "/var/lib/kubelet/plugins/gpu.example.com/dra.sock",
    "examples": "list",
    "examples list": "",
    "examples print": "1",
    "examples where": "1",
    "fleet": "list",
    "fleet list": "",
    "fleet show": "dgx-a100-40gb",
    "fleet slices": "dgx-a100-40gb",
    "get": "pods -n ml",
    "lab": "check",
    "lab backup": "lab.tar.gz",
    "lab check": "",
    "lab restore": "lab.tar.gz --name copy",
    "logs": "trainer -n ml",
    "metrics alerts": "-d alerts",
    "metrics dashboards": "-d dashboards",
    "metrics list": "",
    "rule": "flat-request",
    "run annotator": "",
    "run autoscaler": "--provider karpenter",
    "run claims": "",
    "run driver": "nvidia",
    "run exporter": "",
    "run scheduler": "--scheduler-name gpu-scheduler",
    "run taints": "",
    "run web": "--bind-address 127.0.0.1:8444",
    "snapshot": "-o snapshot.yaml",
    "status": "",
    "tutorial": "",
    "up": "--fleet dgx-a100-40gb:2",
    "version": "",
    "wait": "pod/trainer --for condition=Ready --timeout 5m",
}


def described(command: str, description: str) -> str:
    """The description of a command with its example, unless it contains one.

    >>> described("down", "Stop a lab.")
    'Stop a lab.\\n\\n  allot down\\n'
    """
    if command not in FIRST_EXAMPLES or f"  allot {command}" in description:
        return description
    example = f"  allot {command} {FIRST_EXAMPLES[command]}".rstrip()
    return f"{description.rstrip()}\n\n{example}\n"
