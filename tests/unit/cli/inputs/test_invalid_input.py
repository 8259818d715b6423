"""Invalid input gives one clear error with its position, exit code 2, no traceback and no hang."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.cli.conftest import Allot

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(12)
)
CLAIM = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("kind: Pod\n metadata: {name: x\n", "file.yaml:2:10: bad-yaml: "),
        ("a: &a [*a]\n", "file.yaml:1:8: cyclic-anchor: "),
        (BOMB, "alias-bomb: "),
        ("[" * 100_000, "file.yaml:1:1: too-deep: "),
        ("", "file.yaml: no-object: "),
        ("\0\1\2", "bad-text: a binary file"),
        ("just text\n", "file.yaml:1:1: not-an-object: "),
        ("kind: Pod\n", "no-kind: Object 'apiVersion' is missing"),
        ("apiVersion: resource.k8s.io/v1\nkind: ResourceCliam\n", "did you mean ResourceClaim?"),
        ("apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim\nmetadata: {name: c}\n", "removed-version: "),
        (CLAIM.replace("/v1", "/v1beta1"), "file.yaml:1:13: version-not-served: no matches for kind"),
        (CLAIM + "spec: {devices: {requests: [{name: r, count: 1}]}}\n", "did you mean exactly.count?"),
        (CLAIM + "spec: {devices: {requests: 7}}\n", "file.yaml:4:28: wrong-type: "),
        (CLAIM + "spec: {devices: {requests: [{name: r}]}}\n", "exactly one of `exactly` or `firstAvailable`"),
        (CLAIM + "---\n" + CLAIM, "file.yaml:7:18: given-twice: ResourceClaim default/c is defined twice"),
        (
            POD + "spec:\n  containers:\n  - name: c\n    resources:\n      claims:\n      - name: nope\n",
            'file.yaml:9:9: invalid-field: spec.containers[0].resources.claims[0]: Not found: "nope"',
        ),
        (
            DEPLOYMENT + "spec:\n  template:\n    spec:\n      resourceClaims:\n      - name: g\n",
            "spec.template.spec.resourceClaims[0]: Invalid value",
        ),
    ],
)  # fmt: skip
def test_invalid_file_is_reported_with_position(allot: Allot, tmp_path: Path, text: str, wanted: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    ran = allot("free", "-f", str(file))
    assert ran.code == 2
    assert wanted in ran.err
    assert any(line.startswith("Found ") for line in ran.err.splitlines()[-2:])
    assert ran.out == ""


def test_versions_that_the_release_does_not_serve_by_default_are_read_where_a_cluster_may_serve_them(
    allot: Allot, tmp_path: Path
) -> None:
    file = tmp_path / "file.yaml"
    request = "{name: r, deviceClassName: gpu.nvidia.com}"
    file.write_text(CLAIM.replace("/v1", "/v1beta1") + f"spec: {{devices: {{requests: [{request}]}}}}\n")
    command = ("explain", "-f", str(file), "--fleet", "t4-4x-pcie")
    assert "use resource.k8s.io/v1" in allot(*command).err
    assert allot(*command, "--kube-version", "1.36").code == 0
    group = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
    file.write_text(group + "spec: {schedulingPolicy: {basic: {}}}\n")
    assert "version-not-served" not in allot(*command).err


@pytest.mark.parametrize("command", ["explain", "free"])
def test_an_object_with_a_uid_is_validated(allot: Allot, tmp_path: Path, command: str) -> None:
    """It may come from ``kubectl get -o yaml`` and have been edited."""
    uid = "11111111-2222-4333-8444-555555555555"
    file = tmp_path / "file.yaml"
    file.write_text(CLAIM.replace("name: c", f"name: c, uid: {uid}") + "spec: {devices: {requests: [{name: r}]}}\n")
    ran = allot(command, "-f", str(file))
    assert ran.code == 2
    assert "exactly one of `exactly` or `firstAvailable`" in ran.err


def test_an_expression_that_the_api_server_rejects(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "class.yaml"
    file.write_text(
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\nspec:\n  selectors:\n  - cel:\n"
        '      expression: device.capacity["d"].m >= quantity("1Gi")\n'
    )
    ran = allot("explain", "-f", str(file))
    assert ran.code == 2
    sentence = "quantities cannot be compared with >=. Kubernetes says: Invalid value"
    assert f"{file}:7:19: selector-invalid: spec.selectors[0].cel.expression: {sentence}" in ran.err
    assert "found no matching overload for '_>=_'" in ran.err


def test_missing_files_and_empty_directories(allot: Allot, tmp_path: Path) -> None:
    ran = allot("free", "-f", str(tmp_path / "none.yaml"), str(tmp_path))
    assert ran.code == 2
    assert f"{tmp_path / 'none.yaml'}: unreadable: cannot read the file: no such file or directory" in ran.err
    assert f"{tmp_path}: no-files: " in ran.err
    assert "Found 2 errors in 2 files." in ran.err


def test_directories_and_standard_input_are_read(allot: Allot, tmp_path: Path) -> None:
    snapshot = allot("fleet", "slices", "t4", "--all").out
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "snapshot.yaml").write_text(snapshot)
    from_folder = allot("free", "--cluster", str(tmp_path))
    assert from_folder.out.startswith("1 of 1 device is free, on one node.")
    assert allot("free", "--cluster", "-", stdin=snapshot).out == from_folder.out


def test_problems_on_standard_input_show_their_line(allot: Allot) -> None:
    ran = allot("free", "-f", "-", stdin=CLAIM + "spek: {}\n")
    assert "<stdin>:4:1: unknown-field: " in ran.err
    assert "    4 | spek: {}" in ran.err


def test_problems_are_also_json(allot: Allot) -> None:
    ran = allot("free", "-f", "-", "-o", "json", stdin=CLAIM + "spek: {}\n")
    assert ran.code == 2
    (problem,) = json.loads(ran.out)["problems"]
    assert (problem["code"], problem["line"], problem["column"], problem["path"]) == ("unknown-field", 4, 1, "spek")
    assert json.loads(allot("free", "-o", "json").out)["problems"][0]["code"] == "bad-input"


def test_snapshot_can_have_unknown_fields(allot: Allot) -> None:
    snapshot = allot("fleet", "slices", "t4", "--all").out.replace("kind: Node\n", "kind: Node\nfuture: 1\n")
    assert allot("free", "--cluster", "-", stdin=snapshot).code == 0
    assert allot("free", "-f", "-", stdin=snapshot).code == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_result_or_an_error(allot: Allot, data: bytes) -> None:
    ran = allot("free", "-f", "-", stdin=data)
    assert ran.code in (0, 2), ran.err
    assert "internal error" not in ran.err
