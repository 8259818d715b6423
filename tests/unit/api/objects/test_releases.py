"""The Kubernetes release and its gates: versions as clusters report them, gates in the syntax of Kubernetes' flags."""

from __future__ import annotations

import pytest

from allotment.api.objects.releases import features, features_among, release
from allotment.errors import InputError
from allotment.model.server_facts import ServerFacts, release_note


@pytest.mark.parametrize("text", ["1.36", "v1.36", "1.36.2", "v1.36.2-gke.100", "1.36.0+k3s1"])
def test_versions_of_a_release(text: str) -> None:
    assert release(text) == "1.36"


@pytest.mark.parametrize("text", ["1.2", "2.0", "", "latest", "1.36.", "1.360"])
def test_unsupported_versions_are_rejected_with_the_known_ones(text: str) -> None:
    with pytest.raises(InputError, match=r"expected one of 1\.34, 1\.35, 1\.36, 1\.37"):
        release(text)


def test_gates_are_read_from_one_or_several_options() -> None:
    found = features("1.36", ["DRAConsumableCapacity=false,DRAListTypeAttributes=true", "DRADeviceTaintRules=True"])
    assert not found.enabled("DRAConsumableCapacity")
    assert found.enabled("DRAListTypeAttributes")
    assert found.enabled("DRADeviceTaintRules")
    assert found.enabled("DRAPartitionableDevices")


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("DRADeviceTaint=true", "unrecognized feature gate: DRADeviceTaint", "DRADeviceTaints"),
        ("DRADerivedAttributes=true", "unrecognized feature gate: DRADerivedAttributes", "has it since 1.37"),
        (
            "DRAAdminAccess=false",
            "cannot set feature gate DRAAdminAccess to false, feature is locked to true",
            "in Kubernetes 1.36",
        ),
        (
            "DRAWorkloadResourceClaims=true",
            "DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: [GenericWorkload]",
            "add GenericWorkload=true",
        ),
        (
            "DRAResourceClaimDeviceStatus=false",
            "depends on features that are disabled: [DRAResourceClaimDeviceStatus]",
            "DRADeviceBindingConditions=false",
        ),
        ("DRADeviceTaints", "expected NAME=true or NAME=false", ""),
        ("DRADeviceTaints=maybe", "found 'DRADeviceTaints=maybe'", ""),
    ],
)
def test_invalid_gates_are_explained(text: str, problem: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        features("1.36", [text])
    assert problem in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize("gate", ["GangScheduling", "WorkloadAwarePreemption"])
def test_gates_that_a_release_removed_are_unrecognized(gate: str) -> None:
    assert features("1.36", [f"GenericWorkload=true,GangScheduling=true,{gate}=true"]).enabled(gate)
    with pytest.raises(InputError, match=f"unrecognized feature gate: {gate}") as caught:
        features("1.37", [f"{gate}=true"])
    assert caught.value.hint == "Kubernetes 1.36 was the last release that had it"


def test_locked_gates_accept_their_default() -> None:
    assert features("1.37", ["DRAExtendedResource=true"]).enabled("DRAExtendedResource")
    with pytest.raises(InputError, match="feature is locked to true"):
        features("1.37", ["DRAExtendedResource=false"])


def test_gates_without_effect_on_devices_are_accepted() -> None:
    assert features("1.37", ["ClientsAllowCBOR=true"]).gates == {}


def test_all_gates_of_a_stage() -> None:
    found = features("1.37", ["AllAlpha=true", "AllBeta=true", "DRADerivedAttributes=false"])
    assert found.enabled("CompositePodGroup")
    assert found.enabled("DRAFractionalCapacityRange")
    assert not found.enabled("DRADerivedAttributes")
    with pytest.raises(InputError, match="is enabled, but depends on features that are disabled"):
        features("1.37", ["AllAlpha=true"])


def test_gates_of_the_cluster_satisfy_requirements() -> None:
    server = ServerFacts(version="v1.37.2", gates={"GenericWorkload": True})
    assert features_among(None, ["DRAWorkloadResourceClaims=true"], [server]).enabled("DRAWorkloadResourceClaims")
    with pytest.raises(InputError, match="depends on features that are disabled"):
        features_among("1.37", ["DRAWorkloadResourceClaims=true"], [server])


SERVER = ServerFacts(
    version="v1.35.2", served={"devicetaintrules": ("v1alpha3",)}, gates={"DRAAdminAccess": False, "NewToUs": True}
)


def test_options_override_the_release_and_gates_of_the_cluster() -> None:
    found = features_among(None, ["DRAConsumableCapacity=true"], [SERVER])
    assert found.kube == "1.35"
    assert not found.enabled("DRAAdminAccess")
    assert found.enabled("DRAConsumableCapacity")
    assert features_among(None, ["DRAAdminAccess=true"], [SERVER]).enabled("DRAAdminAccess")


def test_gates_are_detected_from_served_fields_without_metrics() -> None:
    assert features_among(None, [], [SERVER]).enabled("DRADeviceTaintRules")
    assert not features_among(None, [], [ServerFacts(version="v1.35.2")]).enabled("DRADeviceTaintRules")


def test_another_release_has_its_own_gates_except_visible_ones() -> None:
    found = features_among("1.36", [], [SERVER])
    assert found.enabled("DRAAdminAccess")
    assert found.enabled("DRADeviceTaintRules")


@pytest.mark.parametrize(
    ("version", "kube", "note"),
    [
        ("v1.36.3", "1.36", ""),
        ("v1.36.2-gke.100", "1.36", ""),
        ("v1.33.4", "1.34", "the cluster runs Kubernetes v1.33.4; its behavior is modeled as that of 1.34"),
        ("v1.99.0", "1.37", "the cluster runs Kubernetes v1.99.0; its behavior is modeled as that of 1.37"),
        ("", "1.37", ""),
    ],
)
def test_unknown_release_maps_to_a_known_one(version: str, kube: str, note: str) -> None:
    facts = ServerFacts(version=version)
    assert features_among(None, [], [facts]).kube == kube
    assert release_note(facts) == note
