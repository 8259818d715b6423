"""The findings of each CEL rule, their spans and fixes, and valid expressions."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.cel import capacity_in_attributes, unguarded_name
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.cel.rule_results import CAPACITY as C
from tests.unit.tools.check.rules.cel.rule_results import NVIDIA as N
from tests.unit.tools.check.rules.cel.rule_results import apply_fix, codes, matches_of, reports_of

GPU = "gpu.nvidia.com"
STANDARD = "device.attributes['resource.kubernetes.io']"


@pytest.mark.parametrize(
    ("source", "code", "part", "becomes"),
    [
        # C201
        ("device.driver = 'x'", "C201", "=", "device.driver == 'x'"),
        ("device.driver == 'x' or False", "C201", "or", "device.driver == 'x' || False"),
        ("device.driver == 'x' || False", "C201", "False", "device.driver == 'x' || false"),
        ("not(device.driver == 'x')", "C201", "not(device.driver == 'x')", "!(device.driver == 'x')"),
        ("driver == 'x'", "C201", "driver", "device.driver == 'x'"),
        ("devices.driver == 'x'", "C201", "devices", "device.driver == 'x'"),
        ("device.atributes['d.e'].x", "C201", "device.atributes", "device.attributes['d.e'].x"),
        ("device.model == 'x'", "C201", "device.model", f"{N}.model == 'x'".replace("device.", "device.", 1)),
        ("device.memory == quantity('1Gi')", "C201", "device.memory", f"{C}.memory == quantity('1Gi')"),
        (f"device.attributes[{GPU}].type == 'gpu'", "C201", "gpu", f"{N}.type == 'gpu'"),
        ("device.driver.startswith('x')", "C201", "device.driver.startswith('x')", "device.driver.startsWith('x')"),
        (f"quantity({C}.memory) == quantity('1')", "C201", f"quantity({C}.memory)", f"{C}.memory == quantity('1')"),
        ("device.driver == 1", "C201", "device.driver == 1", None),
        ("device.driver.matches('[')", "C201", "'['", None),
        ("device.driver == 'x", "C201", "'", None),
        ("device.driver == ", "C201", "=", None),
        ("device.driver", "C201", "device.driver", None),
        # C202
        (f"{C}.memory >= quantity('1Gi')", "C202", f"{C}.memory >= quantity('1Gi')",
         f"{C}.memory.compareTo(quantity('1Gi')) >= 0"),
        (f"quantity('1Gi') < {C}.memory", "C202", f"quantity('1Gi') < {C}.memory",
         f"quantity('1Gi').compareTo({C}.memory) < 0"),
        ("device.attributes['d.e'].memory > quantity('1')", "C202", "device.attributes['d.e'].memory > quantity('1')",
         "device.attributes['d.e'].memory.compareTo(quantity('1')) > 0"),
        (f"{C}.memory + {C}.memory == quantity('1')", "C202", f"{C}.memory + {C}.memory",
         f"{C}.memory.add({C}.memory) == quantity('1')"),
        (f"({C}.memory - 1) == quantity('1')", "C202", f"{C}.memory - 1", f"{C}.memory.sub(1) == quantity('1')"),
        # C203
        (f"{N}.driverVersion >= '580.0'", "C203", f"{N}.driverVersion >= '580.0'",
         f'{N}.driverVersion.compareTo(semver("580.0.0")) >= 0'),
        (f"{N}.driverVersion == '580.65.06'", "C203", f"{N}.driverVersion == '580.65.06'",
         f'{N}.driverVersion == semver("580.65.6")'),
        (f"'8.0' != {N}.cudaComputeCapability", "C203", f"'8.0' != {N}.cudaComputeCapability",
         f'semver("8.0.0") != {N}.cudaComputeCapability'),
        (f"{N}.cudaComputeCapability < 9.0", "C203", f"{N}.cudaComputeCapability < 9.0",
         f'{N}.cudaComputeCapability.compareTo(semver("9.0.0")) < 0'),
        (f"{N}.cudaComputeCapability in ['8.0', '9.0']", "C203", f"{N}.cudaComputeCapability in ['8.0', '9.0']",
         f'{N}.cudaComputeCapability in [semver("8.0.0"), semver("9.0.0")]'),
        (f"{N}.driverVersion.isGreaterThan('580')", "C203", f"{N}.driverVersion.isGreaterThan('580')",
         f'{N}.driverVersion.isGreaterThan(semver("580.0.0"))'),
        (f"{N}.driverVersion > semver('580.0.0')", "C203", f"{N}.driverVersion > semver('580.0.0')",
         f"{N}.driverVersion.compareTo(semver('580.0.0')) > 0"),
        (f"{N}.driverVersion == 'newest'", "C203", f"{N}.driverVersion == 'newest'", None),
        # C204
        (f"{N}.type.string == 'gpu'", "C204", ".string", f"{N}.type == 'gpu'"),
        (f"{N}.type['string'] == 'gpu'", "C204", "['string']", f"{N}.type == 'gpu'"),
        (f"{C}.memory.value == quantity('1')", "C204", ".value", f"{C}.memory == quantity('1')"),
        # C205
        ("device.attributes['brand'] == 'x'", "C205", "'brand'", f"{N}.brand == 'x'"),
        ("device.attributes.brand == 'x'", "C205", "brand", f"{N}.brand == 'x'"),
        ("device.attributes['gpu.memory'] >= 80", "C205", "'gpu.memory'", f"{C}['gpu.memory'] >= 80"),
        ("device.attributes['gpu.nvidia.com.brand'] == 'x'", "C205", "'gpu.nvidia.com.brand'", f"{N}.brand == 'x'"),
        ("device.attributes['memory'] == quantity('1')", "C205", "'memory'", f"{C}.memory == quantity('1')"),
        ("'uuid' in device.attributes", "C205", "'uuid'", f'"uuid" in {N}'),
        ("device.attributes['gpu'].brand == 'x'", "C205", "'gpu'", f"{N}.brand == 'x'"),
        (f"device.attributes.{GPU}.brand == 'x'", "C205", f".{GPU}", f"{N}.brand == 'x'"),
        (f"device.attributes['{GPU}/brand'] == 'x'", "C205", f"'{GPU}/brand'", f"{N}.brand == 'x'"),
        (f"'{GPU}/brand' in device.attributes", "C205", f"'{GPU}/brand'", f'"brand" in {N}'),
        ("device.attributes['mig-profile'] == 'x'", "C205", "'mig-profile'", f"{N}[\"mig-profile\"] == 'x'"),
        # C206
        ("device.driver == 'x' && ['a'].join('') == 'x'", "C206", "['a'].join('') == 'x'", None),
        # C208
        (f"{N}.memory == quantity('1')", "C208", 'attributes["gpu.nvidia.com"].memory', f"{C}.memory == quantity('1')"),
        (f"{C}.brand == 'x'", "C208", 'capacity["gpu.nvidia.com"].brand', f"{N}.brand == 'x'"),
        # C209
        (f"{N}.driverVersion == semver('v580')", "C209", "'v580'", f'{N}.driverVersion == semver("580.0.0")'),
        (f"{N}.driverVersion == semver('new')", "C209", "'new'", None),
        # C210
        (f"{C}.memory == '40Gi'", "C210", f"{C}.memory == '40Gi'", f'{C}.memory == quantity("40Gi")'),
        (f"{C}.memory >= 40", "C210", f"{C}.memory >= 40", f'{C}.memory.compareTo(quantity("40Gi")) >= 0'),
        (f"{C}.memory > 42949672960", "C210", f"{C}.memory > 42949672960",
         f'{C}.memory.compareTo(quantity("42949672960")) > 0'),
        (f"{C}.memory.isGreaterThan('40GB')", "C210", f"{C}.memory.isGreaterThan('40GB')",
         f'{C}.memory.isGreaterThan(quantity("40G"))'),
        (f"{C}.memory in ['40Gi']", "C210", "'40Gi'", f'{C}.memory in [quantity("40Gi")]'),
        (f"{C}.memory == 'much'", "C210", f"{C}.memory == 'much'", None),
        # C211
        (f"{C}.memory == quantity('40 GB')", "C211", "'40 GB'", f'{C}.memory == quantity("40G")'),
        (f"{C}.memory == quantity(40)", "C211", "40", f'{C}.memory == quantity("40")'),
        (f"{C}.memory == quantity('much')", "C211", "'much'", None),
    ],
)  # fmt: skip
def test_each_mistake_is_reported_once_and_fixed(source: str, code: str, part: str, becomes: str | None) -> None:
    if becomes is not None and "'" in source and '"' not in source:
        becomes = becomes.replace('"', "'")  # fixes use the quotes of the expression
    assert [(report.code, report.text, report.fixed) for report in reports_of(source, GPU)] == [(code, part, becomes)]


@pytest.mark.parametrize(
    "source",
    [
        f"{N}.cudaComputeCapability.compareTo(semver('8.0.0')) >= 0 && {C}.memory.isGreaterThan(quantity('40Gi'))",
        f"{N}.driverVersion == semver('580', true) && {N}.driverVersion.major() >= 580",
        f"{N}.productName.lowerAscii().matches('^.*(t4|a100).*$') || {N}.brand in ['Nvidia', 'Tesla']",
        f"has({N}.addressingMode) && {N}.addressingMode == 'ATS' || {N}.?sharing.orValue('') == 'MPS'",
        f"{C}.memory.compareTo(quantity('40Gi').add({C}.memory)) >= 0 && !('x' in {N})",
        "device.attributes.exists(domain, domain.endsWith('.com')) && 'dra.net' in device.attributes",
        "device.attributes['some.other.example'].model == 'x' && device.driver.startsWith('gpu.')",
        "size(device.capacity) > 0 && device.allowMultipleAllocations == false",
    ],
)
def test_valid_expressions_have_no_findings(source: str) -> None:
    assert codes(source, GPU) == []


def test_messages() -> None:
    messages = {
        report.code: report.message
        for source in (
            "device.driver and true", f"{C}.memory > quantity('1')", f"{N}.driverVersion == '1'",
            f"{N}.type.string == ''",
            "device.attributes['model'] == 'x'", f"{N}.addressingMode == 'x'", f"{N}.memory == quantity('1')",
            f"{N}.driverVersion == semver('1')", f"{C}.memory > 1", f"{C}.memory == quantity('1GB')",
        )
        for report in reports_of(source, GPU)
    }  # fmt: skip
    assert messages == {
        "C201": "and is not valid in CEL: write &&",
        "C202": "quantities cannot be compared with >: the API server rejects the expression",
        "C203": "driverVersion is a version: comparing it with a string fails for every device that has it",
        "C204": "the attribute is already the value: reading .string is an error",
        "C205": '"model" is read as a domain: the domain must come before the name of an attribute',
        "C207": (
            "not every gpu.nvidia.com device of type gpu has attribute addressingMode:"
            " one such device is enough to keep the pod pending"
        ),
        "C208": "memory is a capacity of gpu.nvidia.com, not an attribute: reading it here is an error",
        "C209": "'1' is not a semantic version: semver() fails for every device",
        "C210": "memory is a quantity, but 1 is a number: CEL cannot compare them",
        "C211": "'1GB' is not a quantity: quantity() fails for every device",
    }


def test_help_quotes_the_api_server() -> None:
    ((_, match),) = matches_of("device.driver == 1", GPU)
    assert match.message == "CEL has no operator == for a string and a number"
    assert match.help == ("the API server reports: found no matching overload for '_==_' applied to '(string, int)'")


def test_unknown_domain_has_help_but_no_fix() -> None:
    ((code, match),) = matches_of("device.attributes['x'] == 'y'", "nobody-knows")
    assert (code, match.fix) == ("C205", None)
    assert match.help == 'write device.attributes["<driver>"].x, with the name of the driver'


def test_a_misspelled_attribute_that_is_read_as_a_capacity_of_the_cluster() -> None:
    expression = f'{C}.product_name == "NVIDIA A100-SXM4-40GB"'
    (match,) = (match for code, match in matches_of(expression, GPU, fleet="a100-40gb") if code == "C208")
    assert match.message == (
        "gpu.nvidia.com has no product_name; productName is an attribute of gpu.nvidia.com, not a capacity: reading it "
        "here is an error"
    )
    assert match.fix is not None
    assert not match.fix.safe
    assert apply_fix(expression, match) == f'{N}.productName == "NVIDIA A100-SXM4-40GB"'


# --- guards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        (f"{N}.brand == 'x'", f"device.driver == \"{GPU}\" && {N}.brand == 'x'"),
        (f"{N}.brand == 'x' || {N}.type == 'y'",
         f"device.driver == \"{GPU}\" && ({N}.brand == 'x' || {N}.type == 'y')"),
        (f"{N}.brand == 'x' || true", None),
        (f"{N}.brand == 'x' || device.allowMultipleAllocations",
         f"\"brand\" in {N} && {N}.brand == 'x' || device.allowMultipleAllocations"),
        (f"!({N}.brand == 'x')", f"device.driver == \"{GPU}\" && !({N}.brand == 'x')"),
        (f"device.driver == '{GPU}' && {N}.profile == 'x'",
         f"device.driver == '{GPU}' && \"profile\" in {N} && {N}.profile == 'x'"),
        (f"{STANDARD}.pcieRoot == 'x'", f"'pcieRoot' in {STANDARD} && {STANDARD}.pcieRoot == 'x'"),
    ],
)  # fmt: skip
def test_guards(source: str, becomes: str | None) -> None:
    assert [report.fixed for report in reports_of(source) if report.code == "C207"][:1] == (
        [becomes] if becomes else []
    )


def test_a_device_of_the_cluster_makes_it_an_error() -> None:
    text = unguarded_name.RULE.bad
    (before,) = unguarded_name.RULE.find(bundle_of(text, fleet="a100-40gb"))
    assert (before.level, before.help) == (None, "")
    (after,) = unguarded_name.RULE.find(bundle_of(text, fleet="a100-40gb,mi300x-8x-oam"))
    assert after.level == "error"
    assert after.help.startswith("an example in the cluster is device gpu.amd.com/")


def test_empty_expression() -> None:
    ((code, match),) = matches_of("", GPU)
    assert (code, match.span) == ("C201", None)
    assert "empty" in match.message


def test_slices_identify_the_map_of_an_unknown_drivers_name() -> None:
    slices = """apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: gpu.acme.example
  nodeName: node
  pool: {name: node, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: A}}
    capacity: {memory: {value: 40Gi}}
"""
    text = capacity_in_attributes.RULE.bad.replace(GPU, "gpu.acme.example")
    assert list(capacity_in_attributes.RULE.find(bundle_of(text))) == []
    (match,) = capacity_in_attributes.RULE.find(bundle_of(text, cluster=slices))
    assert match.message.startswith("memory is a capacity of gpu.acme.example")


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("device.memory >= 24Gi", 'device.memory >= quantity("24Gi")'),
        (f"{C}.memory.isGreaterThan(quantity(40Gi))", f'{C}.memory.isGreaterThan(quantity(quantity("40Gi")))'),
        ("device.driver == gpu.nvidia.com", 'device.driver == "gpu.nvidia.com"'),
    ],
)
def test_missing_quotes(source: str, becomes: str) -> None:
    assert [(report.code, report.fixed) for report in reports_of(source, GPU)] == [("C201", becomes)]


def test_consequential_errors_are_not_reported() -> None:
    assert codes("device.colour >= quantity('24Gi')", GPU) == ["C201"]


@pytest.mark.parametrize(
    ("condition", "safe"),
    [("== '8'", False), ("== '8.0'", True), (">= '8'", True), ("== 580", False), ("!= '8'", False)],
)
def test_equality_with_a_major_version_is_an_unsafe_fix(condition: str, safe: bool) -> None:
    ((_, match),) = matches_of(f"{N}.driverVersion {condition}", GPU)
    assert match.fix is not None
    assert match.fix.safe is safe


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        (f"{N}.cudaComputeCapability.major >= 8", f"{N}.cudaComputeCapability.major() >= 8"),
        (f"semver({N}.driverVersion).major() > 8", f"{N}.driverVersion.major() > 8"),
        (f"!{N}.type == 'mig'", f"{N}.type != 'mig'"),
    ],
)
def test_versions_and_negations(source: str, becomes: str) -> None:
    assert [report.fixed for report in reports_of(source, GPU)] == [becomes]


def test_another_name_that_devices_lack_is_no_example_of_a_missing_one() -> None:
    """Every device has numaNode, and none has the misspelled name."""
    driver = 'device.driver == "gpu.nvidia.com"'
    selector = f'{driver} && {N}.productname == "a" && {STANDARD}.numaNode == 0'
    text = unguarded_name.RULE.bad.replace(f'{N}.architecture == "Ampere"', f"'{selector.replace(chr(39), chr(34))}'")
    found = unguarded_name.RULE.find(bundle_of(text, fleet="a100-40gb"))
    assert [match.level for match in found if "numaNode" in match.message] == [None]
