"""V311: Helm values that the driver's chart does not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from allotment.model.editing.edits import Edit, Nest, Remove, RenameKey, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import typo_of, vocabularies
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, mapping
from allotment.vocabulary import Vocabulary

#: Keys that Helm itself defines for every chart.
_HELM_KEYS: Final = frozenset({"global", "enabled"})
#: NVIDIA's safeguard against allocating GPUs that the device plugin allocates, too.
_OVERRIDE: Final = "gpuResourcesEnabledOverride"
_CAMEL_CASE: Final = re.compile("[a-z][A-Z]")
#: Camel-case keys that are common to all charts.
_COMMON_KEYS: Final = re.compile(
    r"(name|fullname|namespace|labels)Override|imagePullSecrets|serviceAccount|pod[A-Z].*|nodeSelector"
)


def _chart_of(bundle: Bundle, document: Document) -> Vocabulary | None:
    """The driver whose chart a document probably has values for."""
    if document.kind or document.api_version:
        return None
    best, best_score = None, 1
    for vocab in vocabularies(bundle):
        score = _chart_score(document.tree, vocab)
        if score > best_score:
            best, best_score = vocab, score
    return best


def _chart_score(tree: Mapping[str, Any], vocab: Vocabulary) -> int:
    """A score for how specific a document's keys are to this chart; one unspecific key is not enough."""
    score = 0
    for top_key in {key.partition(".")[0] for key in vocab.helm} & set(tree):
        if top_key == "resources":  # common, but `resources.computeDomains` is not
            score += 2 * (not _children((top_key,), vocab.helm).isdisjoint(mapping(tree[top_key])))
        elif vocab.vendor in top_key.lower() or top_key.startswith("gpu"):
            score += 2
        elif _CAMEL_CASE.search(top_key) and not _COMMON_KEYS.fullmatch(top_key):
            score += 1
    return score


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for document in bundle.documents:
        vocab = _chart_of(bundle, document)
        if vocab is not None:
            yield from _check_keys(document, vocab)
            yield from _check_override(document, vocab)


def _check_keys(document: Document, vocab: Vocabulary) -> Iterator[RuleMatch]:
    """Keys that the chart does not have."""
    for path in _unknown_keys((), document.tree, tuple(key.split(".") for key in vocab.helm)):
        key = str(path[-1])
        prefix = ".".join(map(str, path[:-1]))
        value_path = _value_path(key, vocab.helm) if not prefix else ""
        full_key = f"{prefix}.{key}" if prefix else key
        if value_path:
            yield RuleMatch(
                document,
                path,
                f'the chart has no value "{full_key}" and ignores it: did you mean {value_path}?',
                help=_value_help(value_path, vocab),
                fix=Fix(
                    f"move it to {value_path}",
                    tuple((document, e) for e in _move_edits(document, path, value_path)),
                    safe=False,
                ),
                at_key=True,
            )
            continue
        suggestion = typo_of(key, _children(path[:-1], vocab.helm))
        if suggestion and suggestion not in mapping(at(document.tree, path[:-1])):
            yield RuleMatch(
                document,
                path,
                f'the chart has no value "{full_key}" and ignores it: did you mean {suggestion}?',
                fix=Fix(f"rename it to {suggestion}", ((document, RenameKey(path, suggestion)),), safe=False),
                at_key=True,
            )
        elif not prefix:
            yield RuleMatch(
                document,
                path,
                f'the chart of {vocab.driver} has no known value "{full_key}"',
                level="note",
                at_key=True,
            )


def _unknown_keys(path: Path, tree: Mapping[str, Any], keys: Iterable[list[str]]) -> Iterator[Path]:
    """The paths of keys that neither are a value nor lead to one. Keys below a value are arbitrary."""
    key_paths = [key for key in keys if key]
    for name, value in tree.items():
        subkeys = [key[1:] for key in key_paths if key[0] == name]
        if not subkeys:
            if path or name not in _HELM_KEYS:
                yield (*path, name)
        elif isinstance(value, dict) and any(subkeys):
            yield from _unknown_keys((*path, name), value, subkeys)


def _children(path: Path, helm: Iterable[str]) -> set[str]:
    depth = len(path)
    split = (key.split(".") for key in helm)
    return {key[depth] for key in split if len(key) > depth and tuple(key[:depth]) == path}


def _value_path(key: str, helm: Iterable[str]) -> str:
    """The value for a key with other separators than dots or levels: ``resources-computeDomains``."""
    parts = re.split(r"[-_./]", key)
    joined = ".".join(parts)
    if len(parts) > 1:
        for value in helm:
            steps = value.split(".")
            if ".".join(steps[: len(parts)]).lower() == joined.lower():
                return ".".join(steps[: len(parts)])
    return ""


def _move_edits(document: Document, path: Path, value_path: str) -> Iterator[Edit]:
    *parents, last = value_path.split(".")
    if len(parents) == 1 and parents[0] not in document.tree:
        yield RenameKey(path, last)
        yield Nest(path[:-1], (str(path[-1]),), parents[0])
        return
    value = at(document.tree, path)
    while at(document.tree, tuple(parents)) is None and len(parents) > 1:
        value, last = {last: value}, parents.pop()
    yield SetValue((*parents, last), value)
    yield Remove(path)


def _value_help(value_path: str, vocab: Vocabulary) -> str:
    """The description of a value."""
    descriptions = [
        (key, description)
        for key, description in vocab.helm.items()
        if key == value_path or key.startswith(f"{value_path}.")
    ]
    return ": ".join(descriptions[0]) if descriptions else ""


def _check_override(document: Document, vocab: Vocabulary) -> Iterator[RuleMatch]:
    """NVIDIA's chart publishes GPUs only with a confirmation that no other component allocates them."""
    enabled = mapping(mapping(document.tree.get("resources")).get("gpus")).get("enabled", True)
    if _OVERRIDE in vocab.helm and enabled is not False and document.tree.get(_OVERRIDE) is not True:
        edit = SetValue((_OVERRIDE,), True)
        yield RuleMatch(
            document,
            (_OVERRIDE,) if _OVERRIDE in document.tree else (),
            f"because resources.gpus.enabled is true (the default), the chart also requires {_OVERRIDE}: true",
            help="set it if no device plugin allocates the same GPUs; otherwise set resources.gpus.enabled: false",
            fix=Fix(f"set {_OVERRIDE}: true", ((document, edit),), safe=False),
            level="note",
        )


RULE = Rule(
    code="V311",
    name="helm-value",
    family="vocabulary",
    level="warning",
    summary="the driver's chart does not read this Helm value",
    why=(
        "Helm passes any values to a chart and does not report keys that no template reads: if the key of a setting "
        "is misspelled, the setting keeps its default. NVIDIA's chart enables compute domains by default, so "
        "'resources-computeDomains: {enabled: false}' leaves them enabled."
    ),
    bad="""\
gpuResourcesEnabledOverride: true
resources-computeDomains:
  enabled: false  # one node only
nvidiaDriverRoot: /run/nvidia/driver
""",
    good="""\
gpuResourcesEnabledOverride: true
resources:
  computeDomains:
    enabled: false  # one node only
nvidiaDriverRoot: /run/nvidia/driver
""",
    find=_find,
    fixable="unsafe",
    see="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/main/deployments/helm/dra-driver-nvidia-gpu/values.yaml",
)
