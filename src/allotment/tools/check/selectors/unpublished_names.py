"""Names in selectors that their driver does not publish: V301 for attributes, V302 for capacities.

Forks of a driver may publish unknown names. An unknown name is therefore a warning, and at most a note if it is read
only if present (``has``, ``.?``, ``in``). If slices are given, they contain the complete set of names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.engine.diagnosis.published_names import similar_names, similarity
from allotment.phrases import either, listed, quoted
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.mig_devices import DRIVER as MIG_DRIVER
from allotment.tools.check.hardware.mig_devices import lacks_mig_devices
from allotment.tools.check.hardware.sample_devices import cluster_samples
from allotment.tools.check.names.known_names import STANDARD_DOMAIN, name_in_other_map, vocabularies, vocabulary_of
from allotment.tools.check.rule import Fix, Level, RuleMatch
from allotment.tools.check.selectors.device_types import presence
from allotment.tools.check.selectors.edits import rename_access
from allotment.tools.check.selectors.expressions import AccessKind, DeviceAccess, Expression, parsed_selectors
from allotment.tools.check.selectors.necessary_conditions import is_necessary, necessary_comparisons
from allotment.tools.check.selectors.reachability import categories_reaching
from allotment.tools.views import SelectorView
from allotment.vocabulary import Vocabulary

#: The minimum similarity of suggestions: unrelated names often share an ending (targetGfxVersion, driverVersion).
_MIN_SIMILARITY: Final = 0.7
_SINGULAR: Final[dict[AccessKind, str]] = {"attributes": "attribute", "capacity": "capacity"}


def unpublished_names(bundle: Bundle, kind: AccessKind) -> Iterator[RuleMatch]:
    """The matches for names of one kind."""
    for view, expr in parsed_selectors(bundle):
        for access in expr.accesses:
            if access.kind == kind and access.domain and access.name:
                match = _check_access(bundle, view, expr, access)
                if match is not None:
                    yield match


def _check_access(bundle: Bundle, view: SelectorView, expr: Expression, access: DeviceAccess) -> RuleMatch | None:
    published = _published_names(bundle, view, access)
    if published is not None:
        return None if access.name in published else _report_absent(bundle, view, expr, access, published)
    if access.domain == STANDARD_DOMAIN:
        return _report_unknown(bundle, view, access, None, _standard_names(bundle, access.kind))
    vocab = vocabulary_of(bundle, access.domain)
    if vocab is None or _full_name(access) in _vocabulary_names(vocab, access.kind):
        return _report_other_type(bundle, view, access, vocab) if vocab is not None else None
    if vocab.renaming(_full_name(access), _SINGULAR[access.kind]) is not None:
        return None  # reported by V303
    return _report_unknown(bundle, view, access, vocab, _vocabulary_names(vocab, access.kind))


# --- against slices ----------------------------------------------------------------------------------------------


def _published_names(bundle: Bundle, view: SelectorView, access: DeviceAccess) -> frozenset[str] | None:
    """The names of the domain in the given slices; None if no slice has a driver that publishes names in it."""
    if bundle.published is None:
        return None
    if access.domain == STANDARD_DOMAIN:
        drivers = {category.driver for category in categories_reaching(bundle, view, access) or ()}
        if drivers and drivers.isdisjoint(bundle.published.drivers):
            return None
    domains = bundle.published.attributes if access.kind == "attributes" else bundle.published.capacities
    if access.domain in domains:
        return frozenset(domains[access.domain])
    return frozenset() if access.domain in bundle.published.drivers else None


def _report_absent(
    bundle: Bundle, view: SelectorView, expr: Expression, access: DeviceAccess, published: frozenset[str]
) -> RuleMatch | None:
    if _is_in_other_map(bundle, access):
        return None
    vocab = vocabulary_of(bundle, access.domain)
    full_name = _full_name(access)
    if vocab is not None and vocab.renaming(full_name, _SINGULAR[access.kind]) is not None:
        return None
    if _is_missing_mig_device(bundle, view, expr, access):
        return None  # reported by V315
    is_known = vocab is not None and full_name in _vocabulary_names(vocab, access.kind)
    message = f'no device in the cluster has {_SINGULAR[access.kind]} "{access.name}" in {access.domain}'
    level: Level = "error" if is_necessary(expr, access) else "warning"
    if vocab is not None and is_known and _has_no_device_of_type(bundle, view, access):
        return _report_other_type(bundle, view, access, vocab)
    if vocab is not None and is_known:
        # The name is correct, but the cluster has no device with it.
        term = (vocab.attributes_by_name if access.kind == "attributes" else vocab.capacities_by_name)[full_name]
        if set(term.on) < {device_type.name for device_type in vocab.types}:
            message += f": only devices of type {listed(sorted(term.on))} publish it"
        return _report(view, access, message, [], vocab, level)
    suggestions = [f"{access.domain}/{device_type}" for device_type in similar_names(access.name, published)]
    if vocab is not None and (guessed := _known_guess(vocab, access)) and guessed.rpartition("/")[2] in published:
        suggestions = [guessed]
    return _report(view, access, message, suggestions, vocab, level)


def _is_missing_mig_device(bundle: Bundle, view: SelectorView, expr: Expression, access: DeviceAccess) -> bool:
    """Whether a request requires a MIG profile, and the cluster has no MIG devices."""
    return (
        view.where == "request"
        and "firstAvailable" not in view.path
        and lacks_mig_devices(bundle)
        and any(
            comparison.access == access and comparison.operator == "=="
            for comparison in necessary_comparisons(expr)
            if (access.domain, access.name) == (MIG_DRIVER, "profile")
        )
    )


def _has_no_device_of_type(bundle: Bundle, view: SelectorView, access: DeviceAccess) -> bool:
    """Whether the cluster has no device of the types that reach the access: the request for that type is reported
    instead.
    """
    reaching = {
        category.type
        for category in categories_reaching(bundle, view, access) or ()
        if category.driver == access.domain
    }
    available = {sample.string_attribute("type") for sample in bundle.cached(cluster_samples).get(access.domain, ())}
    return bool(reaching) and reaching.isdisjoint(available)


# --- against vocabularies ----------------------------------------------------------------------------------------


def _report_unknown(
    bundle: Bundle, view: SelectorView, access: DeviceAccess, vocab: Vocabulary | None, names: frozenset[str]
) -> RuleMatch | None:
    full_name = _full_name(access)
    if full_name in names or _is_in_other_map(bundle, access):
        return None
    publisher = f"{vocab.driver} {vocab.release}" if vocab is not None and _is_old_release(vocab) else access.domain
    message = f'{publisher} publishes no {_SINGULAR[access.kind]} "{access.name}"'
    if vocab is not None and full_name in vocab.later:
        message += f": it was added in release {vocab.later[full_name]}"
        return _report(view, access, message, [], vocab, "warning")
    if vocab is None and not similar_names(access.name, [name.rpartition("/")[2] for name in names]):
        # Unknown drivers may publish other standard names.
        return _report(view, access, f"no known driver publishes {full_name}", [], None, "note")
    guess = _known_guess(vocab, access) if vocab is not None else ""
    names_by_bare_name = {name.rpartition("/")[2]: name for name in sorted(names, reverse=True)}
    similar = [
        names_by_bare_name[bare_name]
        for bare_name in similar_names(access.name, names_by_bare_name)
        if similarity(access.name, bare_name) >= _MIN_SIMILARITY
    ]
    return _report(view, access, message, [guess] if guess else similar, vocab, "warning")


def _report_other_type(bundle: Bundle, view: SelectorView, access: DeviceAccess, vocab: Vocabulary) -> RuleMatch | None:
    """A name that the driver publishes, but on no device that reaches the access."""
    term = (vocab.attributes_by_name if access.kind == "attributes" else vocab.capacities_by_name)[_full_name(access)]
    reaching = categories_reaching(bundle, view, access)
    if not reaching or access.is_optional or any(presence(access, category) != "never" for category in reaching):
        return None
    reaching_types = listed(sorted({category.type for category in reaching}))
    publishing_types = listed(sorted(term.on))
    return RuleMatch(
        view.document,
        view.path,
        f'{_SINGULAR[access.kind]} "{access.name}" is published only on devices of type {publishing_types}, '
        f"but devices of type {reaching_types} are selected here",
        help=f"use a class that selects devices of type {publishing_types}, or remove the condition",
        span=access.name_extent,
    )


def _report(
    view: SelectorView,
    access: DeviceAccess,
    message: str,
    suggestions: list[str],
    vocab: Vocabulary | None,
    level: Level,
) -> RuleMatch | None:
    if access.is_optional:
        # The access allows for a missing name, so another driver or release may be intended.
        if not suggestions:
            return None
        level = "note"
    fix = None
    if len(suggestions) == 1:
        kind = "capacity" if vocab is not None and suggestions[0] in vocab.capacities_by_name else access.kind
        short_name = _short_name(suggestions[0], access)
        if kind == access.kind:
            message += f': did you mean "{short_name}"?'
        else:
            message += f": {suggestions[0].rpartition('/')[2]} is a capacity"
        edit = rename_access(view, access, suggestions[0], kind)
        what = short_name if kind == access.kind else f"the capacity {short_name}"
        fix = Fix(f"read {what}", ((view.document, edit),), safe=False)
    elif suggestions:
        message += f": did you mean {either(quoted(_short_name(suggestion, access)) for suggestion in suggestions)}?"
    return RuleMatch(
        view.document,
        view.path,
        message,
        help=_help(access, vocab, suggestions),
        fix=fix,
        level=level,
        span=access.name_extent,
    )


def _help(access: DeviceAccess, vocab: Vocabulary | None, suggestions: list[str]) -> str:
    if vocab is None or suggestions or _full_name(access) in _vocabulary_names(vocab, access.kind):
        term = vocab.attributes_by_name.get(suggestions[0]) if vocab is not None and len(suggestions) == 1 else None
        return f"{_short_name(term.name, access)}: {term.meaning}" if term is not None else ""
    names = sorted(
        _short_name(name, access)
        for name in _vocabulary_names(vocab, access.kind)
        if name.startswith(f"{vocab.domain}/")
    )
    if len(names) > 16:
        return f"`allot vocabulary {vocab.driver}` lists the names that it publishes"
    return f"{vocab.driver} publishes {listed(names)}" if names else ""


def _is_in_other_map(bundle: Bundle, access: DeviceAccess) -> bool:
    """Whether a capacity is read as an attribute, or the reverse; C208 reports it."""
    return bool(name_in_other_map(bundle, access.kind, access.domain, access.name))


def _known_guess(vocab: Vocabulary, access: DeviceAccess) -> str:
    guess = vocab.guessed.get(access.name, "")
    is_current = guess in vocab.attributes_by_name or guess in vocab.capacities_by_name
    return guess if is_current and (access.kind == "attributes" or guess in vocab.capacities_by_name) else ""


def _vocabulary_names(vocab: Vocabulary, kind: AccessKind) -> frozenset[str]:
    return frozenset(vocab.attributes_by_name if kind == "attributes" else vocab.capacities_by_name)


def _standard_names(bundle: Bundle, kind: AccessKind) -> frozenset[str]:
    """The standard names that known drivers publish."""
    prefix = f"{STANDARD_DOMAIN}/"
    return frozenset(
        name for vocab in vocabularies(bundle) for name in _vocabulary_names(vocab, kind) if name.startswith(prefix)
    )


def _full_name(access: DeviceAccess) -> str:
    return f"{access.domain}/{access.name}"


def _short_name(full_name: str, access: DeviceAccess) -> str:
    """A name without its domain if that is the domain of the access."""
    return full_name.removeprefix(f"{access.domain}/")


def _is_old_release(vocab: Vocabulary) -> bool:
    return vocab.release != vocab.releases[-1]
