"""Descriptions of claims in one sentence of English, for ``allot claim show``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allotment.cel.conjuncts import Conjunct, ValueComparison
from allotment.cel.errors import CompileError
from allotment.cel.selector import compile_selector
from allotment.fleet.advertised_memory import GIB
from allotment.model.features import Features
from allotment.model.loading import Document
from allotment.model.quantity import Quantity
from allotment.phrases import either, listed, plural
from allotment.tools.claims.alternatives import PCIE_ROOT
from allotment.tools.claims.supply import DIALECTS
from allotment.tools.views import ClaimView, PodView, RequestView, claim_view, pod_views
from allotment.vocabulary import installed_classes

#: The noun for the device types of a class.
_NOUNS: Final = {
    "gpu": "GPU", "mig": "MIG device", "amdgpu": "GPU", "amdgpu-partition": "GPU partition", "vfio": "GPU for a VM",
}  # fmt: skip
_PRODUCT: Final = re.compile(r"\.(?:productName|model)\.(?:contains|matches|startsWith)\(r?([\"'])(.*)\1\)$")
_MODE: Final = re.compile(r"\.partitionProfile\.startsWith\(\"([a-z]+)_\"\)")
_GUARD: Final = re.compile(r"""(["'])[^"']+\1 in device\.(?:attributes|capacity)\[[^\]]+\]$""")
_MATCHED: Final = {PCIE_ROOT: "on the same PCIe root", "resource.kubernetes.io/numaNode": "on the same NUMA node"}


class ClaimSentence(NamedTuple):
    """A claim or template, with its description."""

    document: Document
    kind: str
    name: str
    sentence: str

    def to_dict(self) -> dict[str, str]:
        """Return what ``-o json`` prints."""
        return {"kind": self.kind, "name": self.name, "sentence": self.sentence}


class _Described(NamedTuple):
    """The parts of a request's description: the noun, what precedes it, and the conditions that follow it."""

    vendor: str = ""
    noun: str = ""
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def claim_sentences(documents: Sequence[Document], features: Features, namespace: str) -> Iterator[ClaimSentence]:
    """Yield a sentence for each claim and template in documents, with the containers that use it."""
    pods = [view for document in documents for view in pod_views(document, namespace)]
    for document in documents:
        view = claim_view(document, namespace)
        if view is not None:
            words = listed(_requests(view, features)) or "no devices"
            users = listed(_users(view, pods))
            scope = "a new claim for each pod" if view.kind == "ResourceClaimTemplate" else "one claim for all its pods"
            sentence = f"{words}{_constraints(view)}{f', for {users}' if users else ''} ({scope})"
            yield ClaimSentence(document, view.kind, document.name, sentence)


def _requests(view: ClaimView, features: Features) -> Iterator[str]:
    """Yield the description of each request; its alternatives in their order of preference."""
    groups: dict[str, list[str]] = {}
    for request in view.requests:
        groups.setdefault(request.name.partition("/")[0], []).append(_request(request, features))
    yield from (", or else ".join(words) for words in groups.values())


def _request(request: RequestView, features: Features) -> str:
    described = _described(request, features)
    several = request.mode == "All" or request.count > 1
    noun = described.noun or "device"
    if described.profiles:
        noun = f"{either(described.profiles)} {noun}"
    if described.models:
        noun = f"{either(described.models)}{'' if described.noun == 'GPU' else f' {noun}'}"
        vendor = described.vendor if not any(described.vendor in model for model in described.models) else ""
    else:
        noun, vendor = plural(noun) if several else noun, described.vendor
    amount = "all" if request.mode == "All" else str(request.count)
    words = " ".join(filter(None, (amount, vendor, noun)))
    if request.capacity:
        shares = listed(f"{value} of {name}" for name, value in request.capacity.items())
        words = f"a share of {words} with {shares}"
    each = " each" if several else ""
    conditions = [rest + (each if rest.startswith("with at least") else "") for rest in described.rest]
    where = " of a node" if request.mode == "All" else ""
    admin = " for administration" if request.admin_access else ""
    return f"{words}{where}{admin}{f' {listed(conditions)}' if conditions else ''}"


def _described(request: RequestView, features: Features) -> _Described:
    found = installed_classes().get(request.class_name)
    vendor = noun = ""
    if found is not None:
        driver, term = found
        vendor = next((dialect.title for dialect in DIALECTS.values() if dialect.driver == driver), "")
        noun = _NOUNS.get(term.types[0], "device") if len(term.types) == 1 else "device"
        noun = "GPU" if not term.types[0] else noun
    described = _Described(vendor, noun)
    if request.class_name and not vendor:
        described = described._replace(rest=(f"of class {request.class_name}",))
    for selector in request.selectors:
        try:
            conjuncts = compile_selector(selector.expression, features, env="new").conjuncts
        except CompileError:
            described = described._replace(rest=(*described.rest, f"where {selector.expression}"))
            continue
        for conjunct in conjuncts:
            described = _with(described, conjunct)
    return described


def _with(described: _Described, conjunct: Conjunct) -> _Described:
    comparison = conjunct.comparison
    if comparison is not None:
        return _with_comparison(described, comparison, conjunct.text)
    product, mode = _PRODUCT.search(conjunct.text), _MODE.search(conjunct.text)
    if product:
        model = re.sub(r"\\b|\(\^\|_\)|\(_\|\$\)", "", product[2]).replace(".*", " ").replace("_", " ").strip()
        return described._replace(models=(*described.models, model))
    if mode:
        return described._replace(profiles=(*described.profiles, mode[1].upper()))
    if _GUARD.fullmatch(conjunct.text):
        return described
    return described._replace(rest=(*described.rest, f"where {' '.join(conjunct.text.split())}"))


def _with_comparison(described: _Described, comparison: ValueComparison, written: str) -> _Described:
    path, operator, literal = comparison.path, comparison.operator, comparison.literal
    name = path[-1] if len(path) > 1 else path[0]
    values = tuple(str(value) for value in literal) if isinstance(literal, tuple) else (str(literal),)
    if path[0] == "driver" and operator == "==":
        return described
    if operator in ("==", "in"):
        if name in ("productName", "model"):
            return described._replace(models=tuple(value.replace("_", " ") for value in values))
        if name == "profile":
            return described._replace(profiles=values)
        if name == "type" and values[0] in _NOUNS:
            return described._replace(noun=_NOUNS[values[0]])
        if name == "allowMultipleAllocations":
            return described
    if isinstance(literal, Quantity) and operator in (">=", ">"):
        words = f"{'at least' if operator == '>=' else 'more than'} {_amount(literal)}"
        extra = f"with {words}" if name == "memory" else f"with {words} {name}"
        return described._replace(rest=(*described.rest, extra))
    return described._replace(rest=(*described.rest, f"where {' '.join(written.split())}"))


def _amount(quantity: Quantity) -> str:
    value = quantity.value()
    return f"{value // GIB} GiB" if value and value % GIB == 0 else str(quantity)


def _constraints(view: ClaimView) -> str:
    words = []
    for constraint in view.constraints:
        same = constraint.field == "matchAttribute"
        text_ = _MATCHED.get(constraint.attribute) if same else None
        words.append(text_ or f"with {'the same' if same else 'different'} {constraint.attribute.rpartition('/')[2]}")
    return f", {listed(words)}" if words else ""


def _users(view: ClaimView, pods: Iterable[PodView]) -> Iterator[str]:
    """Yield the containers that use a claim: ``container trainer of Deployment llm``."""
    for pod in pods:
        entries = {
            entry.name
            for entry in pod.entries
            if entry.kind == view.kind and entry.refers_to == view.key.name and pod.key.namespace == view.key.namespace
        }
        names = [container.name for container in pod.containers if entries & {use.name for use in container.uses}]
        if names:
            containers = f"{'container' if len(names) == 1 else 'containers'} {listed(names)}"
            yield f"{containers} of {pod.kind} {pod.key.name}"
