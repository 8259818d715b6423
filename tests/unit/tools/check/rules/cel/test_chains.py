"""Several mistakes in one expression: it compiles after all fixes, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.device import DeviceInput
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.values import EvaluationError
from allotment.cel.selector import compile_selector
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity
from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.cel import CEL_RULES
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.cel.rule_results import CAPACITY as C
from tests.unit.tools.check.rules.cel.rule_results import NVIDIA as N
from tests.unit.tools.check.rules.cel.rule_results import apply_fix, bundle, codes, fix_all, matches_of

_FEATURES = Features(kube="1.36")
_ORDERED = f'({C}.memory.add(1).compareTo(quantity("40Gi")) > 0 || {N}.driverVersion == semver("550.1.0"))'


@pytest.mark.parametrize("rule", CEL_RULES, ids=lambda rule: rule.code)
def test_examples_match_and_are_fixed(rule: Rule) -> None:
    bad, good = bundle_of(rule.bad), bundle_of(rule.good)
    (match,) = rule.find(bad)
    assert [r.code for r in CEL_RULES for _ in r.find(good)] == []
    if rule.fixable:
        assert apply_fix(bad.selectors[0].expression, match) == good.selectors[0].expression
        assert match.fix is not None
        assert ("safe" if match.fix.safe else "unsafe") in rule.fixable.split(" or ")
    else:
        assert match.fix is None


@pytest.mark.parametrize(
    ("written", "class_name", "becomes"),
    [
        (
            'device.attributes["memory"].quantity >= quantity("80Gi") && device.attributes["brand"].string == "A"',
            "nvidia-h100",
            f'{C}.memory.compareTo(quantity("80Gi")) >= 0 && {N}.brand == "A"',
        ),
        ('device.attributes["migProfile"].string == "1g.10gb"', "nvidia-gpu-mig", f'{N}.migProfile == "1g.10gb"'),
        (
            'device.driver == "nvidia.com" && device.attributes["model"].string == "H100"',
            "",
            f'device.driver == "nvidia.com" && {N}.model == "H100"',
        ),
        (
            f'{N}.cudaComputeCapability.version >= "8.0" and not {N}.type = "mig"',
            "gpu.nvidia.com",
            f'{N}.cudaComputeCapability.compareTo(semver("8.0.0")) >= 0 && !({N}.type == "mig")',
        ),
        (
            'device.attributes.memory >= "40GB" & device.attributes.gpu.nvidia.com.type == “gpu”',
            "gpu.nvidia.com",
            f'{C}.memory.compareTo(quantity("40G")) >= 0 && {N}.type == "gpu"',
        ),
        (
            f'{N}.memory.value + 1 > quantity("40 GiB") || {N}.driverVersion == semver("v550.1")',
            "",
            f'device.driver == "gpu.nvidia.com" && {_ORDERED}',
        ),
        (
            'attributes[gpu.nvidia.com].productName.toLowerCase().startswith("nvidia") == True',
            "gpu.nvidia.com",
            f'{N}.productName.lowerAscii().startsWith("nvidia") == true',
        ),
        (f'{N}.uuid == "x"', "", f'device.driver == "gpu.nvidia.com" && "uuid" in {N} && {N}.uuid == "x"'),
    ],
)  # fmt: skip
@given(picks=st.lists(st.integers(0, 6), min_size=24, max_size=24))
def test_fixes_converge_in_any_order(written: str, class_name: str, becomes: str, picks: list[int]) -> None:
    order = iter(picks)
    assert fix_all(written, class_name, lambda count: next(order) % count) == (becomes, [])
    compile_selector(becomes, _FEATURES, env="new")


# --- arbitrary expressions -------------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [
        "device", ".attributes", ".capacity", '["gpu.nvidia.com"]', ".memory", '["model"]', ".string", ".quantity", "(",
        ")", "quantity(", '"40Gi"', '"8.0"', "40", " >= ", " == ", " = ", " && ", " || ", " and ", " not ", " in ", "[",
        "]", ".?", "!", "semver(", "has(", ".compareTo(", ", ", " ? ", " : ", "+", "“", "'", ".all(d, ",
        "device.driver", N, C,
        f"{N}.uuid", f"{C}.memory", f"{N}.cudaComputeCapability", '"gpu.nvidia.com"', ".orValue(", "\n", "é",
    ]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=14).map("".join), st.sampled_from(["", "gpu.nvidia.com", "nobody-knows"]))
def test_rules_handle_any_expression(source: str, class_name: str) -> None:
    for code, match in matches_of(source, class_name):
        if match.span is not None:
            assert 0 <= match.span[0] < match.span[1] <= len(source), code
        if match.fix is not None:
            assert apply_fix(source, match) != source, code
    fix_all(source, class_name)


@given(st.lists(_PIECES, max_size=10).map("".join))
def test_every_compile_error_is_reported(source: str) -> None:
    (view,) = bundle(source).selectors or (None,)
    if view is None or not source:
        return
    refused = any(code != "C207" for code in codes(source))
    try:
        compile_selector(source, _FEATURES, env="new")
    except CompileError:
        assert refused


# --- guards only affect devices for which evaluation fails --------------------------------------------------------

_TERMS = st.sampled_from(
    [
        f'{N}.uuid == "a"', f'{N}.type == "gpu"', f'{N}.addressingMode != "a"', f'!({N}.profile == "a")',
        f'{N}.uuid in ["a", "b"]', f'has({N}.uuid)', f'{N}.?uuid.orValue("") == "a"',
        f'{C}.memory.isGreaterThan({C}.a)',
        'device.driver == "gpu.nvidia.com"', 'device.driver != "gpu.amd.com"', "device.allowMultipleAllocations",
        f'{C}.decoders == quantity("1")', 'device.attributes["resource.kubernetes.io"].pcieRoot == "a"',
    ]
)  # fmt: skip
_SELECTORS = st.recursive(
    _TERMS,
    lambda inner: st.one_of(
        st.builds("{} && {}".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=6,
)
_NAMES = ("uuid", "type", "addressingMode", "profile", "resource.kubernetes.io/pcieRoot")
_DEVICES = st.builds(
    lambda driver, names, value, capacities: DeviceInput(
        driver,
        Device(
            name="gpu-0",
            attributes={(n if "/" in n else f"gpu.nvidia.com/{n}"): DeviceAttribute(string=value) for n in names},
            capacity={f"gpu.nvidia.com/{n}": DeviceCapacity(value=Quantity.parse("1")) for n in capacities},
        ),
    ),
    st.sampled_from(["gpu.nvidia.com"]),
    st.sets(st.sampled_from(_NAMES)),
    st.sampled_from(["a", "gpu"]),
    st.sets(st.sampled_from(["memory", "decoders", "a"])),
)


@given(_SELECTORS, st.lists(_DEVICES, min_size=1, max_size=6))
def test_guards_preserve_results_of_other_devices(source: str, devices: list[DeviceInput]) -> None:
    fixed, remaining = fix_all(source)
    assert "C201" not in remaining
    before = compile_selector(source, _FEATURES)
    after = compile_selector(fixed, _FEATURES)
    for device in devices:
        try:
            selected = before.matches(device)
        except EvaluationError:
            continue
        assert after.matches(device) == selected, (source, fixed)
