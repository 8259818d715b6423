"""The shared manifests, and labs with the hardware that they were tried on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from allotment.cluster.resources import SLICES
from allotment.model.features import GATES, Features
from allotment.model.trees import Tree
from tests.lab.stage import Stage, stage

Shared = Callable[[str], Path]

ALL_GATES = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})


class Manifests:
    """The shared manifests, by file."""

    def __init__(self, shared: Shared) -> None:
        self._root = shared("manifests")

    def __call__(self, *files: str) -> list[Tree]:
        """The objects of some files, to be changed at will."""
        found = []
        for file in files:
            path = self._root / (file if file.endswith(".yaml") else f"{file}.yaml")
            found += [tree for tree in yaml.safe_load_all(path.read_text()) if tree]
        return found

    def one(self, file: str, kind: str = "") -> Tree:
        """The object of a file, or the first one of a kind."""
        return next(tree for tree in self(file) if kind in ("", tree["kind"]))


CLUSTERS: Mapping[str, tuple[str, ...]] = {
    "a100": ("classes/nvidia", "slices/nvidia-dgx-a100-full-gpus"),
    "a100-mig": ("classes/nvidia", "slices/nvidia-a100-1gpu-dynamic-mig"),
    "a100-mixed": ("classes/nvidia", "slices/nvidia-dgx-a100-static-mig-mixed"),
    "h100-mig": ("classes/nvidia", "slices/nvidia-h100-2gpu-dynamic-mig"),
    "mi300x": ("classes/amd", "slices/amd-mi300x-spx-v0"),
    "mi300x-2026": ("classes/amd", "slices/amd-mi300x-spx-v1"),
    "mi300x-cpx": ("classes/amd", "slices/amd-mi300x-cpx-v0"),
}


@asynccontextmanager
async def cluster(manifests: Manifests, name: str, features: Features | None = None) -> AsyncIterator[Stage]:
    """A lab with hardware from the shared slices and the vendor's classes."""
    async with stage(features) as on:
        await on.set_up(manifests(*CLUSTERS[name]), kubelets=True)
        yield on


async def accepted(on: Stage, trees: Sequence[Tree]) -> None:
    """All of them are created, strictly."""
    for tree in trees:
        code, message = await on.post(tree)
        assert code in (201, 409), message  # several examples bring their namespace
        assert code == 201 or tree["kind"] == "Namespace", message


async def parents(on: Stage, names: Sequence[str], attribute: str = "parentUUID") -> set[str]:
    """The GPUs that partitions are of."""
    devices = [d for one in (await on.client.list(SLICES)).items for d in one["spec"].get("devices") or ()]
    known = {device["name"]: device.get("attributes") or {} for device in devices}
    return {known[name][attribute]["string"] for name in names}


def story(tell: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(tell())


def pod_with(claim: str, name: str = "user", namespace: str = "default", *, template: bool = False) -> Tree:
    """A pod for a manifest that comes without one."""
    field = "resourceClaimTemplateName" if template else "resourceClaimName"
    container = {"name": "c", "image": "ubuntu:22.04", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", field: claim}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def exactly(request: Tree) -> Tree:
    """The flat request of v1beta1 in the form of v1."""
    name, *_ = (request.pop(key) for key in ("name",))
    return {"name": name, "exactly": request}
