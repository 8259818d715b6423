"""V307: a MIG profile that no GPU has, or not the one that is meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import Specimen, given_specimens, let_through, specimens
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.check.selectors.edits import replaced
from allotment.tools.check.selectors.expressions import Compared, Expression, Literally, read_selectors
from allotment.tools.check.selectors.necessary_conditions import certain_comparisons
from allotment.tools.sentences import listed
from allotment.tools.views import SelectorView

_DRIVER: Final = "gpu.nvidia.com"
_FORM = re.compile(r"(?:(?P<compute>[0-9]+)c\.)?(?P<slices>[0-9]+)g\.(?P<memory>[0-9]+)gb(?P<more>[+-].+)?")
#: Of GPUs whose tables are not among the packaged hardware: H100 with 94 GB, GH200.
_OTHERS: Final = frozenset({
    "1g.12gb", "1g.12gb+me", "1g.24gb", "1g.24gb+me", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb", "3g.48gb",
    "4g.48gb", "7g.96gb",
})  # fmt: skip


class _Gpus(NamedTuple):
    """The GPUs that a selector can mean, in words, and the profiles that they have. ``given``: in the cluster."""

    title: str
    profiles: tuple[str, ...]
    given: bool = False


def _find(bundle: Bundle) -> Iterator[Found]:
    for view, read in read_selectors(bundle):
        certain = {one.node.id for one in certain_comparisons(read)}
        for compared in read.compared:
            access = compared.access
            if access.kind != "attributes" or (access.domain, access.name) != (_DRIVER, "profile"):
                continue
            if compared.operator not in ("==", "in"):
                continue
            for literal in compared.literals:
                if isinstance(literal.value, str):
                    level: Level = "error" if compared.node.id in certain and len(compared.literals) == 1 else "warning"
                    yield from _told(bundle, view, read, compared, literal, level)


def _told(
    bundle: Bundle, view: SelectorView, read: Expression, compared: Compared, literal: Literally, level: Level
) -> Iterator[Found]:
    name = str(literal.value)
    words = words_of(bundle, _DRIVER)
    known = specimens(_DRIVER, words.release if words is not None else "")
    everything = _profiles(known)
    gpus = _given(bundle) or _named(bundle, view, compared, known)
    if name in (gpus.profiles if gpus is not None else {*everything, *_OTHERS}):
        return
    if gpus is None:
        message = f'no known GPU has a MIG profile "{name}"'
        meant = _nearest(name, everything)
    else:
        message = f'{gpus.title} no MIG profile "{name}"'
        meant = _nearest(name, gpus.profiles)
    fix = None
    if meant:
        message += f': with as many slices it is "{meant}"' if _same_slices(name, meant) and gpus else ""
        quote = "'" if view.expression[literal.extent[0]] == "'" else '"'
        edit = replaced(view, literal.extent, f"{quote}{meant}{quote}")
        fix = Fix(f"ask for {meant}", ((view.document, edit),), safe=False)
        if not gpus:
            message += f': did you mean "{meant}"?'
    shown = gpus.profiles if gpus is not None else everything
    yield Found(
        view.document,
        view.path,
        message,
        help=f"profiles are {listed(shown)}" if len(shown) <= 16 else _examples(known),
        fix=fix,
        level=level if gpus is not None and gpus.given else None,
        part=literal.extent,
    )


def _given(bundle: Bundle) -> _Gpus | None:
    """The GPUs of the given cluster, if there are any and all of them are known."""
    found = bundle.kept(given_specimens).get(_DRIVER, ())
    if not found or any(one.accelerator is None for one in found):
        return None
    if not any(one.part or (one.accelerator and one.accelerator.mig) for one in found):
        return None  # without MIG there is no profile at all, which V301 says
    able = [
        profile.name
        for one in found
        if one.accelerator and one.accelerator.mig
        for profile in one.accelerator.mig.profiles
    ]
    profiles = dict.fromkeys([*able, *(one.part for one in found if one.part)])
    return _Gpus("the GPUs of the cluster have", tuple(profiles), given=True)


def _named(bundle: Bundle, view: SelectorView, compared: Compared, known: Collection[Specimen]) -> _Gpus | None:
    """The GPUs that the rest of the selector names, if it names any: by product, architecture, memory…"""
    parts = [one for one in known if one.text("type") == "mig"]
    left = let_through(bundle, view, parts, [compared.extent])
    products = {one.accelerator.product: None for one in left if one.accelerator is not None}
    if not left or len(products) == len({one.accelerator.product for one in parts if one.accelerator is not None}):
        return None
    names = list(products)
    have = "has" if len(names) == 1 else "have"
    # Another condition on the piece itself (its memory, say) leaves fewer profiles than the product has.
    every = [one for one in parts if one.accelerator is not None and one.accelerator.product in products]
    return _Gpus(f"{listed(names)} {have}", _profiles(every))


def _profiles(devices: Iterable[Specimen]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.part for one in devices if one.part))


def _nearest(name: str, profiles: Iterable[str]) -> str:
    """The profile that is plainly meant: the same in another spelling, else as many slices with the nearest memory.

    >>> _nearest("3g.40gb", ["1g.5gb", "3g.20gb", "4g.20gb"]), _nearest("1g5gb", ["1g.5gb", "1g.5gb+me"])
    ('3g.20gb', '1g.5gb')
    """
    listed = list(profiles)
    plain = [one for one in listed if _plain(one) == _plain(name.lower().removeprefix("mig-"))]
    if len(plain) == 1:
        return plain[0]
    form = _FORM.fullmatch(name)
    if form is None:
        return ""
    alike = [
        (abs(int(other["memory"]) - int(form["memory"])), one)
        for one in listed
        if (other := _FORM.fullmatch(one)) and other["slices"] == form["slices"] and other["more"] == form["more"]
    ]
    best = sorted(alike)[:2]
    # Halfway between two nothing is plain.
    return best[0][1] if best and (len(best) == 1 or best[0][0] < best[1][0]) else ""


def _same_slices(name: str, other: str) -> bool:
    return name.partition("g.")[0] == other.partition("g.")[0]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name)


def _examples(known: Iterable[Specimen]) -> str:
    """Profiles by product, for a start."""
    found: dict[str, list[str]] = {}
    for one in known:
        if one.part and one.accelerator is not None and "+" not in one.part:
            found.setdefault(one.accelerator.product, []).append(one.part)
    told = (f"{product} has {listed(names)}" for product, names in list(found.items())[:2])
    return "; ".join(told)


_EXPRESSION = """\
device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-40GB" &&
device.attributes["gpu.nvidia.com"].profile == "{}"
"""

RULE = Rule(
    code="V307",
    name="no-such-mig-profile",
    family="vocabulary",
    level="warning",
    summary="a MIG profile that no GPU has, or not the one that is meant",
    why=(
        "A profile's name tells how many slices it has and how much memory, so the same cut of another GPU is called "
        "otherwise: half an A100 with 40 GB is 3g.20gb, half of one with 80 GB is 3g.40gb (NVIDIA's MIG guide). A "
        "selector with another GPU's name is false for every device, and the pod stays pending."
    ),
    bad=examples.template("half-a-gpu", class_name="mig.nvidia.com", selector=_EXPRESSION.format("3g.40gb")),
    good=examples.template("half-a-gpu", class_name="mig.nvidia.com", selector=_EXPRESSION.format("3g.20gb")),
    find=_find,
    fixable="unsafe",
    see="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#supported-mig-profiles",
)
