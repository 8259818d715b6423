"""S102: request fields are next to the request's name, as in v1beta1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.model.editing.edits import Edit, Nest, Remove, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.phrases import listed
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import decoding_errors_for
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, mapping


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The v1 requests with flat fields, each once."""
    requests: dict[tuple[Document, Path], list[str]] = {}
    for error in decoding_errors_for(bundle, "flat-request"):
        path = error.misfit.path
        requests.setdefault((error.document, path[:-1]), []).append(str(path[-1]))
    for (document, path), names in requests.items():
        request = mapping(at(document.tree, path))
        fix, help_text = _fix_and_help(document, path, request, names)
        message = f"{listed(names)} must be under exactly, not next to the request's name"
        yield RuleMatch(document, (*path, names[0]), message, help=help_text, fix=fix, at_key=True)


def _fix_and_help(document: Document, path: Path, request: dict[str, Any], names: list[str]) -> tuple[Fix | None, str]:
    if request.get("firstAvailable") is not None:
        return None, "a request has either exactly or firstAvailable: move these fields into an alternative"
    if not request.get("exactly"):
        edits: list[Edit] = [Remove((*path, "exactly"))] if "exactly" in request else []
        edits.append(Nest(path, tuple(names), "exactly"))
        return _make_fix(document, f"move {'it' if len(names) == 1 else 'them'} under exactly", edits), ""
    exactly = mapping(request["exactly"])
    conflicting = [name for name in names if name in exactly and exactly[name] != request[name]]
    if conflicting or not exactly:
        values = "is set twice with different values: keep the right one"
        if len(conflicting) > 1:
            values = "are set twice with different values: keep the right ones"
        return None, f"{listed(conflicting)} {values} under exactly"
    edits = [Remove((*path, name)) for name in names]
    edits += [SetValue((*path, "exactly", name), request[name]) for name in names if name not in exactly]
    return _make_fix(document, "move the other fields into exactly", edits), ""


def _make_fix(document: Document, text: str, edits: list[Edit]) -> Fix:
    return Fix(text, tuple((document, edit) for edit in edits), safe=True)


_BAD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: inference
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.nvidia.com   # any of them
      count: 1
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
        deviceClassName: gpu.nvidia.com   # any of them
        count: 1
"""

RULE = Rule(
    code="S102",
    name="flat-request",
    family="shape",
    level="error",
    summary="request fields are next to the request's name instead of under exactly",
    why=(
        "Since v1beta2, a request specifies its devices either under exactly or in the list firstAvailable "
        "(KEP-4816). In v1, the API server rejects a request with deviceClassName, selectors or count next to its "
        "name. With strict validation, these fields are unknown; with fieldValidation=Ignore, they are dropped, and "
        "the request then has neither exactly nor firstAvailable."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4816",
)
