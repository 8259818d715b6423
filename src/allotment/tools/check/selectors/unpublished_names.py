"""Names in selectors that their driver does not publish: what V301 says of attributes, and V302 of capacities.

The world is open: a fork may publish what nobody told us of. So an unknown name is a warning, and one that is read only
where it exists (``has``, ``.?``, ``in``) at most a note. Slices that were given close the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.engine.diagnosis.published_names import likeness, near
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import given_specimens
from allotment.tools.check.names.known_names import STANDARD, is_in_other_map, vocabularies, words_of
from allotment.tools.check.rule import Fix, Found, Level
from allotment.tools.check.selectors.device_types import presence
from allotment.tools.check.selectors.edits import renamed, without
from allotment.tools.check.selectors.expressions import Access, AccessKind, Expression, read_selectors
from allotment.tools.check.selectors.necessary_conditions import is_certain
from allotment.tools.check.selectors.reachability import reaching_access
from allotment.tools.sentences import either, listed, quoted
from allotment.tools.views import SelectorView
from allotment.vocabulary import Vocabulary

#: Names of drivers often end alike (targetGfxVersion, driverVersion): from here on one may be meant for the other.
_ALIKE: Final = 0.7
_ONE: Final[dict[AccessKind, str]] = {"attributes": "attribute", "capacity": "capacity"}


def unpublished(bundle: Bundle, kind: AccessKind) -> Iterator[Found]:
    """What is to be said of the names of one kind."""
    for view, read in read_selectors(bundle):
        for access in read.accesses:
            if access.kind == kind and access.domain and access.name:
                found = _found(bundle, view, read, access)
                if found is not None:
                    yield found


def _found(bundle: Bundle, view: SelectorView, read: Expression, access: Access) -> Found | None:
    given = _published(bundle, access)
    if given is not None:
        return None if access.name in given else _absent(bundle, view, read, access, given)
    if access.domain == STANDARD:
        return _unknown(bundle, view, read, access, None, _standard(bundle, access.kind))
    words = words_of(bundle, access.domain)
    if words is None or _full(access) in _names(words, access.kind):
        return _elsewhere(bundle, view, access, words) if words is not None else None
    if words.renaming(_full(access), _ONE[access.kind]) is not None:
        return None  # V303 says what became of it
    return _unknown(bundle, view, read, access, words, _names(words, access.kind))


# --- against slices ----------------------------------------------------------------------------------------------


def _published(bundle: Bundle, access: Access) -> frozenset[str] | None:
    """The names of the domain in the given slices; None where they say nothing of it."""
    if bundle.published is None:
        return None
    domains = bundle.published.attributes if access.kind == "attributes" else bundle.published.capacities
    if access.domain in domains:
        return frozenset(domains[access.domain])
    return frozenset() if access.domain in bundle.published.drivers else None


def _absent(
    bundle: Bundle, view: SelectorView, read: Expression, access: Access, given: frozenset[str]
) -> Found | None:
    if _said_elsewhere(bundle, access):
        return None
    words = words_of(bundle, access.domain)
    full = _full(access)
    if words is not None and words.renaming(full, _ONE[access.kind]) is not None:
        return None
    known = words is not None and full in _names(words, access.kind)
    message = f'no device of the cluster has {_ONE[access.kind]} "{access.name}" in {access.domain}'
    level: Level = "error" if is_certain(read, access) else "warning"
    if words is not None and known and _is_of_other_devices(bundle, view, access):
        return _elsewhere(bundle, view, access, words)
    if words is not None and known:
        # It is no mistake, and none of those that have it is there.
        term = (words.attributes_by_name if access.kind == "attributes" else words.capacities_by_name)[full]
        if set(term.on) < {one.name for one in words.types}:
            message += f": it is published on devices of type {listed(sorted(term.on))}"
        return _told(view, read, access, message, [], words, level, mend=False)
    meant = [f"{access.domain}/{one}" for one in near(access.name, given)]
    if words is not None and (guessed := _guessed(words, access)) and guessed.rpartition("/")[2] in given:
        meant = [guessed]
    return _told(view, read, access, message, meant, words, level)


def _is_of_other_devices(bundle: Bundle, view: SelectorView, access: Access) -> bool:
    """Whether the cluster has no device of the types that get there: that is told of what asks for such a type."""
    here = {sort.type for sort in reaching_access(bundle, view, access) or () if sort.driver == access.domain}
    there = {one.text("type") for one in bundle.kept(given_specimens).get(access.domain, ())}
    return bool(here) and here.isdisjoint(there)


# --- against vocabularies ----------------------------------------------------------------------------------------


def _unknown(
    bundle: Bundle,
    view: SelectorView,
    read: Expression,
    access: Access,
    words: Vocabulary | None,
    names: frozenset[str],
) -> Found | None:
    full = _full(access)
    if full in names or _said_elsewhere(bundle, access):
        return None
    publisher = f"{words.driver} {words.release}" if words is not None and _is_old(words) else access.domain
    message = f'{publisher} publishes no {_ONE[access.kind]} "{access.name}"'
    if words is not None and full in words.later:
        message += f": it does since release {words.later[full]}"
        return _told(view, read, access, message, [], words, "warning", mend=False)
    if words is None and not near(access.name, [name.rpartition("/")[2] for name in names]):
        # Of the names that all drivers share, drivers that nobody told us of publish more.
        return _told(view, read, access, f"no known driver publishes {full}", [], None, "note", mend=False)
    guessed = _guessed(words, access) if words is not None else ""
    plain = {name.rpartition("/")[2]: name for name in sorted(names, reverse=True)}
    alike = [plain[one] for one in near(access.name, plain) if likeness(access.name, one) >= _ALIKE]
    return _told(view, read, access, message, [guessed] if guessed else alike, words, "warning")


def _elsewhere(bundle: Bundle, view: SelectorView, access: Access, words: Vocabulary) -> Found | None:
    """A name that the driver publishes, but on no device that gets there."""
    term = (words.attributes_by_name if access.kind == "attributes" else words.capacities_by_name)[_full(access)]
    reached = reaching_access(bundle, view, access)
    if not reached or access.tolerant or any(presence(access, sort) != "never" for sort in reached):
        return None
    here = listed(sorted({sort.type for sort in reached}))
    there = listed(sorted(term.on))
    return Found(
        view.document,
        view.path,
        f'{_ONE[access.kind]} "{access.name}" is published on devices of type {there}, and only type {here} gets here',
        help="take a class of that type, or leave the condition out",
        part=access.name_extent,
    )


def _told(
    view: SelectorView,
    read: Expression,
    access: Access,
    message: str,
    meant: list[str],
    words: Vocabulary | None,
    level: Level,
    *,
    mend: bool = True,
) -> Found | None:
    if access.tolerant:
        # Who provides for its absence may well mean another driver or release.
        if not meant:
            return None
        level = "note"
    fix = None
    if len(meant) == 1:
        kind = "capacity" if words is not None and meant[0] in words.capacities_by_name else access.kind
        short = _short(meant[0], access)
        if kind == access.kind:
            message += f': did you mean "{short}"?'
        else:
            message += f": {meant[0].rpartition('/')[2]} is a capacity"
        edit = renamed(view, access, meant[0], kind)
        fix = Fix(f"read {short}", ((view.document, edit),), safe=False)
    elif meant:
        message += f": did you mean {either(quoted(_short(one, access)) for one in meant)}?"
    elif mend and not access.tolerant:
        fix = without(view, read, access)
    return Found(
        view.document,
        view.path,
        message,
        help=_help(access, words, meant),
        fix=fix,
        level=level,
        part=access.name_extent,
    )


def _help(access: Access, words: Vocabulary | None, meant: list[str]) -> str:
    if words is None or meant or _full(access) in _names(words, access.kind):
        term = words.attributes_by_name.get(meant[0]) if words is not None and len(meant) == 1 else None
        return f"{_short(term.name, access)}: {term.meaning}" if term is not None else ""
    names = sorted(_short(name, access) for name in _names(words, access.kind) if name.startswith(f"{words.domain}/"))
    return f"it publishes {listed(names)}" if 0 < len(names) <= 16 else ""


def _said_elsewhere(bundle: Bundle, access: Access) -> bool:
    """Whether it is a capacity that is read as an attribute, or the reverse: C208 says so."""
    return is_in_other_map(bundle, access.kind, access.domain, access.name)


def _guessed(words: Vocabulary, access: Access) -> str:
    meant = words.guessed.get(access.name, "")
    wanted = meant in words.attributes_by_name or meant in words.capacities_by_name
    return meant if wanted and (access.kind == "attributes" or meant in words.capacities_by_name) else ""


def _names(words: Vocabulary, kind: AccessKind) -> frozenset[str]:
    return frozenset(words.attributes_by_name if kind == "attributes" else words.capacities_by_name)


def _standard(bundle: Bundle, kind: AccessKind) -> frozenset[str]:
    """The names that all drivers share, as far as any publishes them."""
    prefix = f"{STANDARD}/"
    return frozenset(name for words in vocabularies(bundle) for name in _names(words, kind) if name.startswith(prefix))


def _full(access: Access) -> str:
    return f"{access.domain}/{access.name}"


def _short(full: str, access: Access) -> str:
    """A name as it is said where the access stands: without the domain that stands there."""
    return full.removeprefix(f"{access.domain}/")


def _is_old(words: Vocabulary) -> bool:
    return words.release != words.releases[-1]
