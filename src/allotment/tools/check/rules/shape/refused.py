"""S109: what the API server refuses an object for, where no other rule says more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.model.loading import Document
from allotment.model.validation.errors import FieldError
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.rules.shape.gates import gates_in_the_way
from allotment.tools.check.rules.shape.places import written
from allotment.tools.check.rules.shape.refusing import refused_anyway, refused_for
from allotment.tools.views import at, mapping

_BAD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: inference
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        allocationMode: All
        count: 8
"""
_GOOD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: inference
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        count: 8
"""

#: Errors that other rules explain: by the field, or by the words.
_OTHERS: Final = (
    re.compile(r"devices\.requests\[\d+\](\.firstAvailable\[\d+\])?\.name$"),  # request-without-name
    re.compile(r"\.cel\.expression$"),  # the rules for CEL
    re.compile(r"devices\.requests\[\d+\]\.adminAccess$"),  # admin-access-label
)
_UNKNOWN_REQUEST: Final = "must be the name of a request in the claim"


def find(bundle: Bundle) -> Iterator[Found]:
    """The API server's own errors, in its own words."""
    for document, manifest in bundle.manifests.items():
        errors = refused_for(bundle, manifest)
        if errors and any(True for _ in gates_in_the_way(bundle, document)):
            anyway = refused_anyway(bundle, manifest)
            errors = [error for error in errors if error in anyway]
        for error in errors:
            if not _is_told(document, error):
                yield Found(document, written(document, error.path), str(error).rstrip("."))


def _is_told(document: Document, error: FieldError) -> bool:
    if error.detail.startswith(_UNKNOWN_REQUEST) or any(one.search(error.path) for one in _OTHERS):
        return True
    pool = at(document.tree, ("spec", "pool"))
    missing = error.path in ("spec.pool.name", "spec.pool.resourceSliceCount")
    return missing and error.path.rpartition(".")[2] not in mapping(pool)


RULE = Rule(
    code="S109",
    name="refused",
    family="shape",
    level="error",
    summary="The API server refuses the object: what it says",
    why=(
        "Beyond types and names of fields, the API server validates what an object says: how many of a thing there may"
        " be, what excludes what, what a name may look like. It answers 422 Unprocessable Entity with the path and the"
        " reason. The same rules are applied here, with the paths of v1, whichever version was written."
    ),
    bad=_BAD,
    good=_GOOD,
    find=find,
    see="https://github.com/kubernetes/kubernetes/tree/master/pkg/apis/resource/validation",
)
