"""The demo's manifests that cannot work, as ``allot check --fix --unsafe`` mends them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from allotment.cli.examples import Example
from allotment.fleet import Cluster
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.tools.check.bundle import Bundle, Settings, World
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import fix


class Mended(NamedTuple):
    """An example after its fixes, in a file of its own, and what was mended, in the order in which it was."""

    example: Example
    fixed: tuple[Finding, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """Code and name of each rule that found something, once."""
        return tuple(dict.fromkeys(f"{finding.code} {finding.name}" for finding in self.fixed))


def mend(example: Example, cluster: Cluster, kube: str, folder: Path) -> Mended | None:
    """The example mended for a cluster, as a file of ``folder``; None when nothing about it can be."""
    name = f"{example.name}.yaml"
    loaded = load_text(example.text, name)
    world = World((*cluster.nodes, *cluster.slices, *cluster.classes), hardware=True)
    bundle = Bundle(loaded.documents, Settings(Features(kube=kube)), world, loaded.problems)
    fixed = fix(bundle, unsafe=True)
    text = fixed.texts.get(name)
    if text is None:
        return None
    path = folder / name
    path.write_text(text, "utf-8")
    return Mended(replace(example, text=text, expect="fits", path=str(path)), fixed.applied)
