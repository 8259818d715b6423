"""V307: a MIG profile that no GPU has, or that the selected GPU does not have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from allotment.phrases import listed
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import SampleDevice, cluster_samples, sample_devices, selected_by
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import Expression, LiteralComparison, LiteralValue, parsed_selectors
from allotment.tools.check.selectors.necessary_conditions import necessary_comparisons
from allotment.tools.views import SelectorView

_DRIVER: Final = "gpu.nvidia.com"
_FORM = re.compile(r"(?:(?P<compute>[0-9]+)c\.)?(?P<slices>[0-9]+)g\.(?P<memory>[0-9]+)gb(?P<more>[+-].+)?")
#: Profiles of GPUs that are not among the known hardware: H100 with 94 GB, GH200.
_OTHER_PROFILES: Final = frozenset({
    "1g.12gb", "1g.12gb+me", "1g.24gb", "1g.24gb+me", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb", "3g.48gb",
    "4g.48gb", "7g.96gb",
})  # fmt: skip


class _GpuSelection(NamedTuple):
    """The GPUs that a selector can select, as the start of a message, and their profiles; ``given`` if from the
    cluster.
    """

    title: str
    profiles: tuple[str, ...]
    given: bool = False


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        necessary = {required.node.id for required in necessary_comparisons(expr)}
        for comparison in expr.comparisons:
            access = comparison.access
            if access.kind != "attributes" or (access.domain, access.name) != (_DRIVER, "profile"):
                continue
            if comparison.operator not in ("==", "in"):
                continue
            for literal in comparison.literals:
                if isinstance(literal.value, str):
                    level: Level = (
                        "error" if comparison.node.id in necessary and len(comparison.literals) == 1 else "warning"
                    )
                    yield from _check_profile(bundle, view, expr, comparison, literal, level)


def _check_profile(
    bundle: Bundle,
    view: SelectorView,
    expr: Expression,
    comparison: LiteralComparison,
    literal: LiteralValue,
    level: Level,
) -> Iterator[RuleMatch]:
    name = str(literal.value)
    vocab = vocabulary_of(bundle, _DRIVER)
    samples = sample_devices(_DRIVER, vocab.release if vocab is not None else "")
    known_profiles = _profiles(samples)
    gpus = _cluster_gpus(bundle) or _selected_gpus(bundle, view, comparison, samples)
    if name in (gpus.profiles if gpus is not None else {*known_profiles, *_OTHER_PROFILES}):
        return
    if gpus is None:
        message = f'no known GPU has a MIG profile "{name}"'
        suggestion = _nearest(name, known_profiles)
    else:
        message = f'{gpus.title} no MIG profile "{name}"'
        suggestion = _nearest(name, gpus.profiles)
    fix = None
    if suggestion:
        message += (
            f': the profile with the same number of slices is "{suggestion}"'
            if _same_slices(name, suggestion) and gpus
            else ""
        )
        quote = "'" if view.expression[literal.extent[0]] == "'" else '"'
        edit = replace_extent(view, literal.extent, f"{quote}{suggestion}{quote}")
        fix = Fix(f"select {suggestion}", ((view.document, edit),), safe=False)
        if not gpus:
            message += f': did you mean "{suggestion}"?'
    available = gpus.profiles if gpus is not None else known_profiles
    yield RuleMatch(
        view.document,
        view.path,
        message,
        help=f"available profiles: {listed(available)}" if len(available) <= 16 else _profile_examples(samples),
        fix=fix,
        level=level if gpus is not None and gpus.given else None,
        span=literal.extent,
    )


def _cluster_gpus(bundle: Bundle) -> _GpuSelection | None:
    """The GPUs of the given cluster; None if it has none or some of them are unknown."""
    samples = bundle.cached(cluster_samples).get(_DRIVER, ())
    if not samples or any(sample.accelerator is None for sample in samples):
        return None
    if not any(sample.partition or (sample.accelerator and sample.accelerator.mig) for sample in samples):
        return None  # without MIG there are no profiles, which V301 reports
    supported = [
        profile.name
        for sample in samples
        if sample.accelerator and sample.accelerator.mig
        for profile in sample.accelerator.mig.profiles
    ]
    profiles = dict.fromkeys([*supported, *(sample.partition for sample in samples if sample.partition)])
    return _GpuSelection("the GPUs of the cluster have", tuple(profiles), given=True)


def _selected_gpus(
    bundle: Bundle, view: SelectorView, comparison: LiteralComparison, known: Collection[SampleDevice]
) -> _GpuSelection | None:
    """The GPUs that the rest of the selector selects by product, architecture or memory; None if it does not restrict
    them.
    """
    mig_samples = [sample for sample in known if sample.string_attribute("type") == "mig"]
    selected = selected_by(bundle, view, mig_samples, [comparison.extent])
    products = {sample.accelerator.product: None for sample in selected if sample.accelerator is not None}
    if not selected or len(products) == len(
        {sample.accelerator.product for sample in mig_samples if sample.accelerator is not None}
    ):
        return None
    names = list(products)
    have = "has" if len(names) == 1 else "have"
    # Conditions on the MIG device itself (such as its memory) select fewer profiles than the product has.
    samples = [
        sample for sample in mig_samples if sample.accelerator is not None and sample.accelerator.product in products
    ]
    return _GpuSelection(f"{listed(names)} {have}", _profiles(samples))


def _profiles(devices: Iterable[SampleDevice]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sample.partition for sample in devices if sample.partition))


def _nearest(name: str, profiles: Iterable[str]) -> str:
    """The profile that is probably intended: the same in another spelling, or with the same slices and the nearest
    memory.

    >>> _nearest("3g.40gb", ["1g.5gb", "3g.20gb", "4g.20gb"]), _nearest("1g5gb", ["1g.5gb", "1g.5gb+me"])
    ('3g.20gb', '1g.5gb')
    """
    known = list(profiles)
    same_spelling = [
        profile for profile in known if _normalized(profile) == _normalized(name.lower().removeprefix("mig-"))
    ]
    if len(same_spelling) == 1:
        return same_spelling[0]
    form = _FORM.fullmatch(name)
    if form is None:
        return ""
    by_distance = [
        (abs(int(other["memory"]) - int(form["memory"])), profile)
        for profile in known
        if (other := _FORM.fullmatch(profile)) and other["slices"] == form["slices"] and other["more"] == form["more"]
    ]
    closest = sorted(by_distance)[:2]
    # Two profiles at the same distance are ambiguous.
    return closest[0][1] if closest and (len(closest) == 1 or closest[0][0] < closest[1][0]) else ""


def _same_slices(name: str, other: str) -> bool:
    return name.partition("g.")[0] == other.partition("g.")[0]


def _normalized(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name)


def _profile_examples(samples: Iterable[SampleDevice]) -> str:
    """The profiles of some products."""
    profiles_by_product: dict[str, list[str]] = {}
    for sample in samples:
        if sample.partition and sample.accelerator is not None and "+" not in sample.partition:
            profiles_by_product.setdefault(sample.accelerator.product, []).append(sample.partition)
    descriptions = (f"{product} has {listed(names)}" for product, names in list(profiles_by_product.items())[:2])
    return "; ".join(descriptions)


_EXPRESSION = """\
device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-40GB" &&
device.attributes["gpu.nvidia.com"].profile == "{}"
"""

RULE = Rule(
    code="V307",
    name="no-such-mig-profile",
    family="vocabulary",
    level="warning",
    summary="the MIG profile does not exist on the selected GPU or on any known GPU",
    why=(
        "The name of a profile states its number of slices and its memory, so the same fraction of a different GPU "
        "has a different name: half of a 40 GB A100 is 3g.20gb, and half of an 80 GB A100 is 3g.40gb (NVIDIA's MIG "
        "guide). A selector with another GPU's profile name is false for every device, and the pod stays pending."
    ),
    bad=examples.template("half-a-gpu", class_name="mig.nvidia.com", selector=_EXPRESSION.format("3g.40gb")),
    good=examples.template("half-a-gpu", class_name="mig.nvidia.com", selector=_EXPRESSION.format("3g.20gb")),
    find=_find,
    fixable="unsafe",
    see="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#supported-mig-profiles",
)
