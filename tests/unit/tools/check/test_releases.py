"""Every rule for every release: a fix writes only versions, kinds and fields that the requested release has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.model.editing.edits import AddDocument
from allotment.model.editing.tree_edits import apply_edits
from allotment.model.fields import TypeShape, kinds_of, shape_of
from allotment.model.loading import Document, load_text
from allotment.model.releases import RELEASES, release_table
from allotment.model.strict_decoding import strict_decode
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import fix
from allotment.tools.check.rules import RULES
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of, example_bundle

GROUPS: Final = ("resource.k8s.io", "scheduling.k8s.io")
releases = pytest.mark.parametrize("kube", RELEASES)


def is_served(api_version: str, kind: str, kube: str) -> bool:
    """Whether a release serves a kind at all; kinds of other groups than Kubernetes' own are served."""
    group, _, version = api_version.rpartition("/")
    groups = release_table(kube).groups
    if group not in groups:
        return not group.endswith(".k8s.io")
    served = groups[group].get(version)
    return served is not None and any(resource.kind == kind for resource in served.resources.values())


def violations(tree: Any, kube: str) -> list[str]:
    """The errors of strict decoding in a release."""
    version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
    shape = shape_of(version, kind, kube)
    return [] if shape is None else [v.message for v in strict_decode(tree, version, kind, shape).violations]


def unknown_fields(tree: Any, kube: str) -> list[str]:
    """The names of the fields that a release does not have."""
    version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
    shape = shape_of(version, kind, kube)
    found = [] if shape is None else strict_decode(tree, version, kind, shape).violations
    return [str(violation.path[-1]) for violation in found if violation.category == "unknown"]


def assert_fixes_fit(bundle: Bundle, kube: str) -> None:
    """Each fix alone writes only what the release has."""
    for finding in check(bundle, STATIC_RULES):
        if finding.fix is None:
            continue
        for _, edit in finding.fix.edits:
            if isinstance(edit, AddDocument):
                assert is_served(edit.value["apiVersion"], edit.value["kind"], kube)
        changed = finding.fix.edits[0][0]
        before, after = changed.tree, _fixed(finding, changed)
        identity = after.get("apiVersion", ""), after.get("kind", "")
        if identity != (before.get("apiVersion", ""), before.get("kind", "")):
            assert is_served(*identity, kube), f"{finding.code}: {finding.fix.text} in {kube}"
        else:
            own = set(_keys(before))  # a fix can uncover the author's other mistakes
            new = [name for name in unknown_fields(after, kube) if name not in own]
            assert not new, f"{finding.code}: {finding.fix.text} in {kube}: {new}"


def _keys(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        yield from tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _keys(value)


def _fixed(finding: Finding, document: Document) -> dict[str, Any]:
    """A document after a fix."""
    edits = finding.fix.edits if finding.fix is not None else ()
    tree: dict[str, Any] = apply_edits(document.tree, [edit for changed, edit in edits if changed is document])
    return tree


# --- the examples of all rules ---------------------------------------------------------------------------------------


@releases
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.name}")
def test_examples_of_rules_are_fixed_as_the_release_requires(rule: Any, kube: str) -> None:
    bundle = bundle_of(rule.bad, kube=kube)
    assert_fixes_fit(bundle, kube)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.fixable], ids=lambda rule: rule.code)
def test_fixed_examples_are_accepted(rule: Any) -> None:
    """After all fixes, strict decoding accepts the example, and checking it again finds nothing to fix."""
    bundle = example_bundle(rule, rule.bad)
    fixed = fix(bundle, unsafe=True).texts.get("file.yaml", rule.bad)
    again = example_bundle(rule, fixed)
    assert [finding for finding in check(again) if finding.fix or finding.level == "error"] == []
    for document in again.documents:
        if document.kind and document.api_version:
            assert violations(document.tree, rule.kube) == []


# --- manifests of other releases -------------------------------------------------------------------------------------

GROUP_OLD: Final = """\
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: workers}
spec:
  # The template of the Workload.
  podGroupTemplateRef:
    workload:
      workloadName: training
      podGroupTemplateName: worker
  schedulingPolicy:
    gang: {minCount: 4}
  disruptionMode: PodGroup
"""
GROUP_NEW: Final = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: workers}
spec:
  # The template of the Workload.
  workloadRef:
    workloadName: training
    templateName: worker
  schedulingPolicy:
    gang: {minCount: 4}
  disruptionMode:
    all: {}
"""
WORKLOAD: Final = """\
apiVersion: scheduling.k8s.io/v1alpha2
kind: Workload
metadata: {name: training}
spec:
  podGroupTemplates:
  - name: worker
    schedulingPolicy: {basic: {}}
    disruptionMode: Pod
  - name: driver
    schedulingPolicy: {gang: {minCount: 1}}
"""
RULE_OF_TAINT: Final = """\
apiVersion: resource.k8s.io/{}
kind: DeviceTaintRule
metadata: {{name: broken}}
spec:
  deviceSelector: {{driver: gpu.example.com}}
  taint: {{key: example.com/broken, effect: NoSchedule}}
"""
FLAT: Final = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.example.com
      derivedAttributes: [{name: example.com/a, expression: '"a"'}]
    constraints: [{matchAttribute: example.com/a}]
"""


def fixed_text(text: str, kube: str) -> str:
    return fix(bundle_of(text, kube=kube), unsafe=False).texts.get("file.yaml", text)


def codes(text: str, kube: str, level: str = "error") -> list[str]:
    return [finding.code for finding in check(bundle_of(text, kube=kube)) if finding.level == level]


def test_group_of_an_older_release_is_converted() -> None:
    assert fixed_text(GROUP_OLD, "1.37") == GROUP_NEW
    assert codes(GROUP_OLD, "1.37") == ["S101"]
    assert codes(GROUP_NEW, "1.37") == []


def test_group_of_a_newer_release_is_converted_back() -> None:
    assert fixed_text(GROUP_NEW, "1.36") == GROUP_OLD
    (finding,) = [finding for finding in check(bundle_of(GROUP_NEW, kube="1.36")) if finding.code == "S101"]
    assert finding.message == ("Kubernetes 1.36 has no PodGroup in scheduling.k8s.io/v1beta1 yet: it was added in 1.37")


def test_workload_of_an_older_release_is_converted() -> None:
    (tree,) = yaml.safe_load_all(fixed_text(WORKLOAD, "1.37"))
    assert tree["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert [item.get("disruptionMode") for item in tree["spec"]["podGroupTemplates"]] == [{"single": {}}, None]
    assert violations(tree, "1.37") == []


def test_fields_that_an_older_version_lacks_are_never_dropped() -> None:
    text = GROUP_NEW + "  preemptionPolicy: Never\n"
    (finding,) = [finding for finding in check(bundle_of(text, kube="1.36")) if finding.code == "S101"]
    assert finding.fix is None
    assert finding.help == "write it in scheduling.k8s.io/v1alpha2, which has other fields"


def test_composite_groups_do_not_exist_before_their_release() -> None:
    text = "apiVersion: scheduling.k8s.io/v1alpha3\nkind: CompositePodGroup\nmetadata: {name: top}\n"
    text += "spec: {schedulingPolicy: {basic: {}}}\n"
    (finding,) = [finding for finding in check(bundle_of(text, kube="1.36")) if finding.level == "error"]
    assert (finding.code, finding.fix) == ("S107", None)
    assert finding.message == "Kubernetes 1.36 has no CompositePodGroup in scheduling.k8s.io/v1alpha3"
    assert finding.help == "scheduling.k8s.io/v1alpha3 has CompositePodGroup since Kubernetes 1.37"
    assert codes(text, "1.37") == []


@pytest.mark.parametrize(
    ("kube", "versions"),
    [
        ("1.34", {"v1": "v1alpha3", "v1beta2": "v1alpha3", "v1alpha3": "v1alpha3"}),
        ("1.36", {"v1": "v1beta2", "v1beta2": "v1beta2", "v1alpha3": "v1beta2"}),
        ("1.37", {"v1": "v1", "v1beta2": "v1", "v1alpha3": "v1"}),
    ],
)
def test_taint_rules_get_the_newest_version_of_the_release(kube: str, versions: dict[str, str]) -> None:
    for written, expected in versions.items():
        (tree,) = yaml.safe_load_all(fixed_text(RULE_OF_TAINT.format(written), kube))
        assert tree["apiVersion"] == f"resource.k8s.io/{expected}"


def test_versions_that_are_off_by_default_are_errors_before_their_removal() -> None:
    for version in ("v1beta1", "v1beta2"):
        text = f"apiVersion: resource.k8s.io/{version}\nkind: DeviceClass\nmetadata: {{name: gpu}}\nspec: {{}}\n"
        assert codes(text, "1.37") == ["S101"]
        assert codes(text, "1.36") == []
        assert "S101" in codes(text, "1.36", "warning")


def test_derived_attributes_move_with_the_request() -> None:
    (tree,) = yaml.safe_load_all(fixed_text(FLAT, "1.37"))
    (request,) = tree["spec"]["devices"]["requests"]
    assert set(request["exactly"]) == {"deviceClassName", "derivedAttributes"}
    assert codes(fixed_text(FLAT, "1.37"), "1.37") == []


def test_fields_of_a_newer_release_are_named_as_such() -> None:
    (tree,) = yaml.safe_load_all(fixed_text(FLAT, "1.37"))
    found = [finding for finding in check(bundle_of(yaml.safe_dump(tree), kube="1.36")) if finding.level == "error"]
    assert [(finding.code, finding.fix) for finding in found] == [("S110", None)]
    assert "which Kubernetes 1.36 does not have (added in 1.37)" in found[0].message


def test_priority_class_has_one_version() -> None:
    text = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n"
    for kube in RELEASES:
        assert codes(text, kube) == ["S101"]
        assert yaml.safe_load(fixed_text(text, kube))["apiVersion"] == "scheduling.k8s.io/v1"


@releases
@pytest.mark.parametrize("written", ["apiVersion: v1\n", "apiVersion: extensions/v1beta1\n", ""])
@pytest.mark.parametrize(
    "kind", ["PodGroup", "CompositePodGroup", "DeviceTaintRule", "CertificateSigningRequest", "Lease"]
)
def test_kinds_in_another_group_get_a_served_version(written: str, kind: str, kube: str) -> None:
    bundle = bundle_of(f"{written}kind: {kind}\nmetadata: {{name: a}}\n", kube=kube)
    assert_fixes_fit(bundle, kube)


# --- any manifest ----------------------------------------------------------------------------------------------------


def _all_kinds() -> list[tuple[str, str]]:
    found = {
        (version, kind)
        for release in RELEASES
        for version in release_table(release).kinds
        for kind in kinds_of(version, release)
        if version.partition("/")[0] in GROUPS
    }
    return sorted(found)


SCALARS: Final = {
    "string": "a", "bool": True, "int32": 1, "int64": 1, "Quantity": "1500m", "Time": "2026-01-01T00:00:00Z",
}  # fmt: skip


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """An object of any version of any kind of the two groups, with some of the fields that some release has."""
    version, kind = draw(st.sampled_from(_all_kinds()))
    shapes = [shape for release in RELEASES if (shape := shape_of(version, kind, release)) is not None]
    tree = draw(_values(draw(st.sampled_from(shapes)), 7))
    tree = {name: value for name, value in tree.items() if name not in ("metadata", "status")}
    tree |= {"apiVersion": draw(_versions(version, kind)), "kind": kind, "metadata": {"name": "a"}}
    return yaml.safe_dump(tree, sort_keys=False)


def _versions(version: str, kind: str) -> st.SearchStrategy[str]:
    group = version.partition("/")[0]
    others = [other for other, name in _all_kinds() if name == kind and other.startswith(f"{group}/")]
    return st.sampled_from([version, version, version, *others])


@st.composite
def _values(draw: st.DrawFn, shape: TypeShape, depth: int) -> Any:
    if shape.form == "struct":
        names = [name for name in shape.fields if name not in ("metadata", "status", "apiVersion", "kind")]
        chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=4)) if names and depth else []
        if "spec" in names:
            chosen = list(dict.fromkeys(["spec", *chosen]))
        tree = {name: draw(_values(shape.fields[name].shape, depth - 1)) for name in chosen}
        if chosen and draw(st.integers(0, 9)) == 0:  # a typing error
            name = draw(st.sampled_from(chosen))
            tree = {(name + "s" if key == name else key): value for key, value in tree.items()}
        return tree
    if shape.element is not None:
        item = draw(_values(shape.element, depth - 1))
        return [item] if shape.form == "slice" else {"cpu": item}
    return SCALARS.get(shape.form, "a")


@settings(max_examples=150)
@given(text=manifests(), kube=st.sampled_from(RELEASES))
def test_no_fix_writes_what_the_release_lacks(text: str, kube: str) -> None:
    assert_fixes_fit(bundle_of(text, kube=kube), kube)


@settings(max_examples=60)
@given(text=manifests(), kube=st.sampled_from(RELEASES))
def test_fixing_ends_with_a_served_version(text: str, kube: str) -> None:
    fixed = fixed_text(text, kube)
    findings = check(bundle_of(fixed, kube=kube), STATIC_RULES)
    assert [finding for finding in findings if finding.fix is not None and finding.fix.safe] == []
    if fixed != text:
        (document,) = load_text(fixed).documents
        unfixed = {finding.code for finding in findings} & {"S101", "S107", "S110"}
        assert is_served(document.api_version, document.kind, kube) or unfixed
