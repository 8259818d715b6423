"""``allot apply`` and ``allot delete`` on a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

import allotment
from allotment.cluster.resources import CONFIG_MAPS
from allotment.lab.manifests import NotApplied
from tests.unit.cli.conftest import Allot

BEGINNERS = Path(__file__).parents[2] / "corpus" / "beginners"
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: %s}
"""
KIND = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trains.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: trains, singular: train, kind: Train, shortNames: [tr]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {cars: {type: integer}}}}}}
---
apiVersion: example.com/v1
kind: Train
metadata: {name: local}
spec: {cars: 3}
"""


def test_an_object_is_created_configured_or_left_unchanged(live: Allot) -> None:
    outputs = [live("apply", "-f", "-", stdin=SETTINGS % colour).out for colour in ("blue", "blue", "red")]
    assert outputs == [
        "configmap/settings created\n",
        "configmap/settings unchanged\n",
        "configmap/settings configured\n",
    ]


def test_a_dry_run_stores_nothing(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    ran = live("apply", "--dry-run=server", "-f", "-", stdin=SETTINGS % "blue")
    assert ran.out == "configmap/settings created (server dry run)\n"
    live("apply", "-f", "-", stdin=SETTINGS % "blue")
    same = live("apply", "--dry-run=server", "-f", "-", stdin=SETTINGS % "blue")
    assert same.out == "configmap/settings unchanged (server dry run)\n"
    other = live("apply", "--dry-run=server", "-f", "-", stdin=SETTINGS % "red")
    assert other.out == "configmap/settings configured (server dry run)\n"
    assert lab.client.get(CONFIG_MAPS, "settings", namespace)["data"] == {"colour": "blue"}


def test_fields_of_other_managers_require_force_conflicts(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "green"}}
    lab.client.create(CONFIG_MAPS, {**tree, "metadata": {"name": "settings", "namespace": namespace}}, namespace)
    lab.client.patch(CONFIG_MAPS, "settings", {"data": {"colour": "black"}}, namespace)
    refused = live("apply", "-f", "-", stdin=SETTINGS % "blue")
    assert refused.code == 1
    assert refused.err.startswith("Error from server (Conflict): <stdin>:1:1: Apply failed with 1 conflict")
    assert "--force-conflicts takes over these fields" in refused.err
    assert (
        live("apply", "--force-conflicts", "-f", "-", stdin=SETTINGS % "blue").out == "configmap/settings configured\n"
    )


def test_next_step_after_conflicts_takes_over_the_fields(
    live: Allot, lab: allotment.Lab, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(SETTINGS % "blue")
    live("apply", "-f", str(file))
    # As after `kubectl replace` of a corrected object.
    lab.client.patch(CONFIG_MAPS, "settings", {"data": {"colour": "green"}}, namespace)
    refused = live("apply", "-f", str(file))
    command = refused.err.splitlines()[-1].removeprefix("next: allot ")
    assert command == f"apply -f {file} -n {namespace} --force-conflicts"
    assert live(*command.split()).out == "configmap/settings configured\n"


def test_next_step_creates_a_missing_namespace(live: Allot, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text((SETTINGS % "blue").replace("name: settings", "name: settings, namespace: absent"))
    refused = live("apply", "-f", str(file), "-n", "absent")
    assert refused.code == 1
    command = refused.err.splitlines()[-1]
    assert command.startswith("next: kubectl ")
    assert command.endswith(" create namespace absent")
    assert " -n " not in command


def test_every_object_is_applied_and_rejections_have_positions(live: Allot, tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    wrong = SETTINGS.replace("settings", "Not_A_Name") % "blue"
    unknown = "apiVersion: v1\nkind: Pdo\nmetadata: {name: x}\n"
    file.write_text("---\n".join([wrong, unknown, SETTINGS % "blue"]))
    ran = live("apply", "-f", str(file))
    assert ran.code == 1
    assert ran.out == "configmap/settings created\n"
    assert f'Error from server (Invalid): {file}:3:18: ConfigMap "Not_A_Name" is invalid' in ran.err
    assert (
        f'resource mapping not found for name: "x" in "{file}:6:1": no matches for kind "Pdo" in version "v1"'
        in ran.err
    )
    assert "did you mean Pod?" in ran.err


def test_unreadable_input_is_reported_before_any_change(live: Allot, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("---\n".join([SETTINGS % "blue", "a: [b"]))
    ran = live("apply", "-f", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert "broken.yaml" in ran.err
    assert "No resources found" in live("get", "configmap", "-l", "never=there").err
    missing = live("apply", "-f", str(tmp_path / "never.yaml"))
    assert (missing.code, missing.out) == (1, "")
    assert "never.yaml" in missing.err


def test_kind_and_its_objects_can_be_in_one_file(live: Allot) -> None:
    ran = live("apply", "-f", "-", stdin=KIND)
    assert ran.err == ""
    assert ran.out.splitlines()[1] == "train.example.com/local created"
    assert live("get", "tr", "-o", "jsonpath={.items[*].spec.cars}").out == "3"
    live("delete", "-f", "-", stdin=KIND)


def test_name_can_be_generated(live: Allot) -> None:
    ran = live("apply", "-f", "-", stdin=(SETTINGS % "blue").replace("name: settings", "generateName: some-"))
    assert ran.out.startswith("configmap/some-")
    assert ran.out.endswith(" created\n")
    nameless = live("apply", "-f", "-", stdin=(SETTINGS % "blue").replace("name: settings", ""))
    assert (nameless.code, nameless.out) == (1, "")
    assert "resource name may not be empty" in nameless.err


def test_different_namespaces_in_file_and_command_are_an_error(live: Allot, namespace: str) -> None:
    inside = (SETTINGS % "blue").replace("name: settings", "name: settings, namespace: other")
    ran = live("apply", "-f", "-", stdin=inside)
    assert ran.code == 1
    assert f'the namespace from the provided object "other" does not match the namespace "{namespace}"' in ran.err


def test_objects_are_deleted_by_file_by_name_and_by_label(live: Allot, namespace: str) -> None:
    text = "---\n".join(SETTINGS.replace("settings", name) % "blue" for name in ("one", "two", "three"))
    live("apply", "-f", "-", stdin=text.replace("{name: two}", "{name: two, labels: {a: b}}"))
    assert live("delete", "configmap", "one").out == f'configmap "one" deleted from {namespace} namespace\n'
    assert live("delete", "cm", "-l", "a=b").out == f'configmap "two" deleted from {namespace} namespace\n'
    rest = live("delete", "-f", "-", stdin=text)
    assert rest.out == f'configmap "three" deleted from {namespace} namespace\n'
    assert rest.err.splitlines() == [
        'Error from server (NotFound): configmaps "one" not found',
        'Error from server (NotFound): configmaps "two" not found',
    ]
    assert rest.code == 1
    assert live("delete", "--ignore-not-found", "-f", "-", stdin=text).code == 0


def test_delete_waits_until_the_object_is_gone(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    kept = (SETTINGS % "blue").replace("name: settings", "name: settings, finalizers: [example.com/kept]")
    live("apply", "-f", "-", stdin=kept)
    assert live("delete", "cm", "settings", "--wait=false").code == 0
    waited = live("delete", "cm", "settings", "--timeout", "300ms")
    assert (waited.code, waited.err) == (1, "error: timed out waiting for the deletion\n")
    lab.client.patch(CONFIG_MAPS, "settings", {"metadata": {"finalizers": None}}, namespace)
    assert live("wait", "cm/settings", "--for=delete").out == "configmap/settings condition met\n"


def test_kind_without_name_deletes_nothing(live: Allot) -> None:
    ran = live("delete", "configmap")
    assert (ran.code, ran.out) == (1, "")
    assert "no name was specified" in ran.err
    assert live("delete").code == 1


CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests:
    - name: gpu
      %s
"""


@pytest.mark.parametrize(
    ("request_", "place", "advice"),
    [
        ("exactly: {deviceClassname: gpu.nvidia.com}", "8:17", ["  did you mean deviceClassName?"]),
        (
            "deviceClassName: gpu.nvidia.com\n      count: 2",
            "8:7",
            [
                "  did you mean exactly.deviceClassName?",
                '  <stdin>:9:7: unknown field "spec.devices.requests[0].count"; did you mean exactly.count?',
            ],
        ),
    ],
)
def test_rejection_has_position_and_suggestion(
    live: Allot, lab: allotment.Lab, request_: str, place: str, advice: list[str]
) -> None:
    ran = live("apply", "-f", "-", stdin=CLAIM % request_)
    assert ran.code == 1
    first, *rest = ran.err.splitlines()
    assert f": <stdin>:{place}: " in first
    assert rest == advice
    with pytest.raises(NotApplied) as refused:
        lab.apply(CLAIM % request_)
    first, *rest = str(refused.value).splitlines()
    assert f":{place}: ResourceClaim gpu: " in first
    assert len(rest) == len(advice)


def test_rejection_that_is_hard_to_read_follows_a_sentence(live: Allot, lab: allotment.Lab) -> None:
    wrong = CLAIM % "exactly: {deviceClassName: Not A Name}"
    first, second = live("apply", "-f", "-", stdin=wrong).err.splitlines()
    assert first.startswith('<stdin>:8:34: "Not A Name" is not a valid name: ')
    assert first.endswith("such as not-a-name")
    assert second.startswith("Error from server (Invalid): <stdin>:8:34: ")
    with pytest.raises(NotApplied, match="such as not-a-name"):
        lab.apply(wrong)


#: Beginners' mistakes, and what the API server and Allotment say about each.
REFUSED = {
    "memory-in-request": (
        "field not declared in schema",
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
    ),
    "gpu-in-request": ("field not declared in schema", "the number of devices is count"),
    "class-in-container": ("field not declared in schema", "deviceClassName is a field of the claim's request"),
    "count-beside-all": ("must not be specified when allocationMode is 'All'", "remove allocationMode to request 2"),
    "gpu-limit": ("must be a standard resource type or fully qualified", 'a container has no resource "gpu"'),
    "half-gpu-limit": ("must be an integer", "a device plugin allocates whole devices of nvidia.com/gpu"),
    "class-of-plugin": ("regex used for validation", "the class of the DRA driver is gpu.nvidia.com"),
    "name-with-capitals": ("regex used for validation", '"Big_Claim" is not a valid name'),
    "single-equals-sign": ("token recognition error", "= is not valid in CEL: write =="),
    "number-for-quantity": (
        "found no matching overload",
        "memory is a quantity, but 20 is a number: CEL cannot compare them",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_mistakes_of_beginners_are_explained(live: Allot, name: str) -> None:
    ran = live("apply", "--dry-run=server", "-f", str(BEGINNERS / f"{name}.yaml"))
    text, sentence = REFUSED[name]
    assert ran.code == 1
    assert text in ran.err
    assert sentence in ran.err


@pytest.mark.parametrize("name", ["claim-without-container", "plugin-limit-beside-claim"])
def test_accepted_mistakes_of_beginners_are_accepted(live: Allot, name: str) -> None:
    assert live("apply", "--dry-run=server", "-f", str(BEGINNERS / f"{name}.yaml")).code == 0


TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %s}}]}}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  nodeSelector: {size: %s}
  containers: [{name: main, image: pause}]
"""


@pytest.mark.parametrize(("text", "first", "second"), [(TEMPLATE, "gpu.nvidia.com", "other"), (POD, "large", "small")])
def test_change_of_an_immutable_field_names_the_command_that_replaces_the_object(
    live: Allot, lab: allotment.Lab, tmp_path: Path, text: str, first: str, second: str
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(text % first)
    assert live("apply", "-f", str(file)).code == 0
    file.write_text(text % second)
    ran = live("apply", "-f", str(file))
    assert ran.code == 1
    *_, hint = ran.err.splitlines()
    assert hint.startswith("  to delete the objects of this file and create them again: kubectl --context ")
    assert hint.endswith(f" replace --force -f {file}")
    assert ran.err.count("replace --force") == 1
    from_input = live("apply", "-f", "-", stdin=text % second)
    assert from_input.err.splitlines()[-1].startswith("  the existing object cannot be changed: delete it")


def test_rejected_object_with_a_finding_has_a_next_step(live: Allot, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("---\n".join((TEMPLATE % "nvidia.com/gpu", POD % "large")))
    ran = live("apply", "-f", str(file))
    assert (ran.code, ran.out) == (1, "pod/trainer created\n")
    assert ran.err.splitlines()[-1] == f"next: allot check {file} -n {namespace} --fix --unsafe-fixes"
    assert live("check", str(file), "--fix", "--unsafe-fixes").code == 0
    assert live("apply", "-f", str(file)).code == 0


def test_rejected_object_without_a_finding_has_no_next_step(live: Allot, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("---\n".join((SETTINGS.replace("colour", "a/b") % "blue", TEMPLATE % "gpu.nvidia.com")))
    ran = live("apply", "-f", str(file))
    assert ran.code == 1
    assert "next: " not in ran.err
