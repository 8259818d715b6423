"""S115: slices of one pool that contradict each other."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from allotment.model.decoding import Manifest
from allotment.model.loading.marks import split_path
from allotment.model.slice_conflicts import find_conflicts
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.field_shapes import written_path
from allotment.tools.check.rule import Rule, RuleMatch


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The contradictions between slices of each pool. Slices of different folders belong to different clusters."""
    folders: dict[str, list[Manifest]] = {}
    for manifest in bundle.manifests.values():
        folders.setdefault(posixpath.dirname(manifest.document.file), []).append(manifest)
    for manifests in folders.values():
        for conflict in find_conflicts(manifests):
            document = conflict.manifest.document
            elsewhere = conflict.other is not None and conflict.other.file != document.file
            yield RuleMatch(
                document,
                written_path(document, split_path(conflict.path)),
                conflict.message,
                help=f"{conflict.other_label} {conflict.other}" if conflict.other else "",
                level="warning" if elsewhere else None,
            )


def _two_slices(*devices: str) -> str:
    slices = (
        examples.resource_slice(
            f"- name: {device}", driver="gpu.example.com", node="worker-1", slice_count=2, name_suffix=f"-{suffix}"
        )
        for suffix, device in zip("ab", devices, strict=True)
    )
    return examples.join_documents(*slices)


RULE = Rule(
    code="S115",
    name="slices-contradict",
    family="shape",
    level="error",
    summary="ResourceSlices of one pool contradict each other",
    why=(
        "The scheduler assembles a pool from its slices of the highest generation. If two of them contain a device "
        "with the same name, announce different numbers of slices, or consume counters that no slice defines, the "
        "pool is invalid and none of its devices is allocated (KEP-4381, KEP-4815). The API server validates one "
        "slice at a time and rejects none of them."
    ),
    bad=_two_slices("gpu-0", "gpu-0"),
    good=_two_slices("gpu-0", "gpu-1"),
    find=_find,
    see="https://kep.k8s.io/4381",
)
