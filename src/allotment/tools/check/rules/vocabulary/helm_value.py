"""V311: values for a driver's Helm chart that the chart does not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from allotment.model.editing.edits import Edit, Nest, Remove, RenameKey, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import slip, vocabularies
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.views import at, mapping
from allotment.vocabulary import Vocabulary

#: Helm's own, which every chart may be given.
_HELMS_OWN: Final = frozenset({"global", "enabled"})
#: NVIDIA's switch against handing out GPUs that the device plugin hands out, too.
_OVERRIDE: Final = "gpuResourcesEnabledOverride"
_HUMP: Final = re.compile("[a-z][A-Z]")
#: Camel case that charts of all kinds have.
_USUAL: Final = re.compile(
    r"(name|fullname|namespace|labels)Override|imagePullSecrets|serviceAccount|pod[A-Z].*|nodeSelector"
)


def _chart_of(bundle: Bundle, document: Document) -> Vocabulary | None:
    """The driver whose chart a document has values for, if it looks like that."""
    if document.kind or document.api_version:
        return None
    best, most = None, 1
    for words in vocabularies(bundle):
        score = _telling(document.tree, words)
        if score > most:
            best, most = words, score
    return best


def _telling(tree: Mapping[str, Any], words: Vocabulary) -> int:
    """How much of a document only values of this chart would say; one key that tells little is not enough."""
    score = 0
    for first in {key.partition(".")[0] for key in words.helm} & set(tree):
        if first == "resources":  # it is everywhere, `resources.computeDomains` is not
            score += 2 * (not _children((first,), words.helm).isdisjoint(mapping(tree[first])))
        elif words.vendor in first.lower() or first.startswith("gpu"):
            score += 2
        elif _HUMP.search(first) and not _USUAL.fullmatch(first):
            score += 1
    return score


def _find(bundle: Bundle) -> Iterator[Found]:
    for document in bundle.documents:
        words = _chart_of(bundle, document)
        if words is not None:
            yield from _unread(document, words)
            yield from _override(document, words)


def _unread(document: Document, words: Vocabulary) -> Iterator[Found]:
    """Keys that the chart has not."""
    for path in _unknown((), document.tree, tuple(key.split(".") for key in words.helm)):
        key = str(path[-1])
        before = ".".join(map(str, path[:-1]))
        dotted = _dotted(key, words.helm) if not before else ""
        named = f"{before}.{key}" if before else key
        if dotted:
            yield Found(
                document,
                path,
                f'the chart has no value "{named}" and ignores it: {dotted} is meant',
                help=_effect(dotted, words),
                fix=Fix(
                    f"move it to {dotted}", tuple((document, e) for e in _moved(document, path, dotted)), safe=False
                ),
                key=True,
            )
            continue
        known = slip(key, _children(path[:-1], words.helm))
        if known and known not in mapping(at(document.tree, path[:-1])):
            yield Found(
                document,
                path,
                f'the chart has no value "{named}" and ignores it: did you mean {known}?',
                fix=Fix(f"call it {known}", ((document, RenameKey(path, known)),), safe=False),
                key=True,
            )
        elif not before:
            yield Found(
                document,
                path,
                f'the chart of {words.driver} is not known to have a value "{named}"',
                level="note",
                key=True,
            )


def _unknown(path: Path, tree: Mapping[str, Any], keys: Iterable[list[str]]) -> Iterator[Path]:
    """The paths of keys that are no value and lead to none. What stands below a value is the value's own."""
    known = [key for key in keys if key]
    for name, value in tree.items():
        below = [key[1:] for key in known if key[0] == name]
        if not below:
            if path or name not in _HELMS_OWN:
                yield (*path, name)
        elif isinstance(value, dict) and any(below):
            yield from _unknown((*path, name), value, below)


def _children(path: Path, helm: Iterable[str]) -> set[str]:
    depth = len(path)
    split = (key.split(".") for key in helm)
    return {key[depth] for key in split if len(key) > depth and tuple(key[:depth]) == path}


def _dotted(key: str, helm: Iterable[str]) -> str:
    """The value that a key names with something else than dots or levels: ``resources-computeDomains``."""
    parts = re.split(r"[-_./]", key)
    meant = ".".join(parts)
    if len(parts) > 1:
        for known in helm:
            steps = known.split(".")
            if ".".join(steps[: len(parts)]).lower() == meant.lower():
                return ".".join(steps[: len(parts)])
    return ""


def _moved(document: Document, path: Path, dotted: str) -> Iterator[Edit]:
    *parents, last = dotted.split(".")
    if len(parents) == 1 and parents[0] not in document.tree:
        yield RenameKey(path, last)
        yield Nest(path[:-1], (str(path[-1]),), parents[0])
        return
    value = at(document.tree, path)
    while at(document.tree, tuple(parents)) is None and len(parents) > 1:
        value, last = {last: value}, parents.pop()
    yield SetValue((*parents, last), value)
    yield Remove(path)


def _effect(dotted: str, words: Vocabulary) -> str:
    """What the value that is meant does."""
    told = [(key, does) for key, does in words.helm.items() if key == dotted or key.startswith(f"{dotted}.")]
    return " is for: ".join(told[0]) if told else ""


def _override(document: Document, words: Vocabulary) -> Iterator[Found]:
    """NVIDIA's chart publishes GPUs only if somebody says that nothing else hands them out."""
    enabled = mapping(mapping(document.tree.get("resources")).get("gpus")).get("enabled", True)
    if _OVERRIDE in words.helm and enabled is not False and document.tree.get(_OVERRIDE) is not True:
        edit = SetValue((_OVERRIDE,), True)
        yield Found(
            document,
            (_OVERRIDE,) if _OVERRIDE in document.tree else (),
            f"resources.gpus.enabled is on, as by default, and the chart installs it only with {_OVERRIDE}: true",
            help="it is a promise that no device plugin hands out the same GPUs; or set resources.gpus.enabled: false",
            fix=Fix(f"set {_OVERRIDE}: true", ((document, edit),), safe=False),
            level="note",
        )


RULE = Rule(
    code="V311",
    name="helm-value",
    family="vocabulary",
    level="warning",
    summary="values for a driver's Helm chart that the chart does not read",
    why=(
        "Helm hands a chart whatever it is given and says nothing of keys that no template reads: what a misspelt key "
        "should switch stays as it was. NVIDIA's chart has compute domains on by default, so that "
        "'resources-computeDomains: {enabled: false}' leaves them on."
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
