"""S115: slices of one pool that disagree."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.contradictions import contradictions
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.rules.shape.places import written

_BAD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: worker-1-gpu.example.com-a
spec:
  driver: gpu.example.com
  nodeName: worker-1
  pool:
    name: worker-1
    generation: 1
    resourceSliceCount: 2
  devices:
  - name: gpu-0
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: worker-1-gpu.example.com-b
spec:
  driver: gpu.example.com
  nodeName: worker-1
  pool:
    name: worker-1
    generation: 1
    resourceSliceCount: 2
  devices:
  - name: gpu-0
"""
_GOOD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: worker-1-gpu.example.com-a
spec:
  driver: gpu.example.com
  nodeName: worker-1
  pool:
    name: worker-1
    generation: 1
    resourceSliceCount: 2
  devices:
  - name: gpu-0
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: worker-1-gpu.example.com-b
spec:
  driver: gpu.example.com
  nodeName: worker-1
  pool:
    name: worker-1
    generation: 1
    resourceSliceCount: 2
  devices:
  - name: gpu-1
"""


def find(bundle: Bundle) -> Iterator[Found]:
    """What the slices of each pool disagree about."""
    for one in contradictions(bundle.manifests.values()):
        help_text = f"{one.words[:1].upper()}{one.words[1:]} {one.other}" if one.other else ""
        yield Found(one.manifest.document, written(one.manifest.document, one.path), one.message, help=help_text)


RULE = Rule(
    code="S115",
    name="slices-contradict",
    family="shape",
    level="error",
    summary="ResourceSlices of one pool contradict each other",
    why=(
        "The scheduler puts a pool together from its slices of the highest generation. Where two of them have a device"
        " of the same name, announce different numbers of slices, or consume counters that no slice has, the pool is"
        " invalid, and no device of it is given to anybody (KEP-4381, KEP-4815). The API server sees one slice at a"
        " time and refuses none of them."
    ),
    bad=_BAD,
    good=_GOOD,
    find=find,
    see="https://kep.k8s.io/4381",
)
