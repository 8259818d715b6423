"""Vocabularies of all drivers and releases: complete, consistent, cached, and equal to upstream where known."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.selector import compile_selector
from allotment.model.features import Features
from allotment.vocabulary import (
    Vocabulary,
    drivers,
    guessed_classes,
    installed_classes,
    mistaken_drivers,
    vendors,
    vocabulary,
)
from allotment.vocabulary.changes import changes
from allotment.vocabulary.lookup import cel_example, find


def words_of(driver: str, release: str = "") -> Vocabulary:
    words = vocabulary(driver, release)
    assert words is not None
    return words


EVERY = [(driver, release) for driver in drivers() for release in words_of(driver).releases]


def test_unknown_drivers_have_no_vocabulary() -> None:
    assert vocabulary("gpu.somebody.example") is None
    assert drivers()[0] == "gpu.nvidia.com"


@pytest.mark.parametrize(
    ("driver", "written", "known"),
    [
        ("gpu.nvidia.com", "", "0.5-dev"),
        ("gpu.nvidia.com", "25.8", "25.8"),
        ("gpu.nvidia.com", "v25.8.1", "25.8"),
        ("gpu.nvidia.com", "v25.3.0-rc.4", "25.3"),
        ("gpu.nvidia.com", "v0.4.1", "0.4"),
        ("gpu.nvidia.com", "v0.5.0-dev", "0.5-dev"),
        ("gpu.nvidia.com", "main", "0.5-dev"),
        ("gpu.nvidia.com", "25", "25.12"),
        ("gpu.amd.com", "v0", "0.1"),
        ("gpu.amd.com", "v0.1.0", "0.1"),
        ("gpu.amd.com", "v1", "1.1-dev"),
        ("gpu.amd.com", "1.0.1", "1.0"),
    ],
)
def test_releases_are_found_in_every_spelling(driver: str, written: str, known: str) -> None:
    assert words_of(driver, written).release == known


def test_an_unknown_release_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no release 24\.1: expected one of 25\.3, 25\.8"):
        vocabulary("gpu.nvidia.com", "24.1")


@given(st.sampled_from(drivers()), st.text(alphabet="v0123456789.-dev", max_size=8))
def test_any_release_is_found_or_rejected(driver: str, release: str) -> None:
    try:
        words = words_of(driver, release)
    except ValueError:
        return
    assert words.release in words.releases


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_tables_are_consistent(driver: str, release: str) -> None:
    words = words_of(driver, release)
    types = {type_.name for type_ in words.types}
    names = [term.name for term in (*words.terms, *words.classes, *words.gates)]
    assert len(words.attributes_by_name) == len(words.attributes), "each once"
    assert len(words.capacities_by_name) == len(words.capacities), "each once"
    for term in words.terms:
        assert "/" in term.name
        assert set(term.on) <= types
        assert term.on
    for attribute in words.attributes:
        assert not attribute.closed or attribute.values
        if attribute.kind == "version":
            assert all(re.fullmatch(r"\d+\.\d+\.\d+", value) for value in attribute.values)
    assert all(set(class_.types) <= types for class_ in words.classes)
    assert all(renamed.release in words.releases for renamed in words.renamed)
    assert set(words.later).isdisjoint(names)
    assert all(words.releases.index(since) > words.releases.index(release) for since in words.later.values())


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_replacements_of_renamed_names_exist(driver: str, release: str) -> None:
    words = words_of(driver, release)
    published = {term.name for term in words.terms}
    for name, intended in words.guessed.items():
        assert intended in published
        assert f"{driver}/{name}" not in published
    for old in words.renamed:
        assert not old.becomes or old.becomes in published | {class_.name for class_ in words.classes}, old.name
        assert old.redefined == (old.name in published) or old.kind == "class", old.name
    assert set(guessed_classes().values()) <= set(installed_classes())
    assert set(guessed_classes()).isdisjoint(installed_classes())
    assert set(mistaken_drivers()).isdisjoint(drivers())


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_descriptions_are_short_lines(driver: str, release: str) -> None:
    words = words_of(driver, release)
    meanings = [term.meaning for term in (*words.terms, *words.classes, *words.gates, *words.types, *words.renamed)]
    for meaning in [*meanings, *words.helm.values()]:
        assert 0 < len(meaning) <= 100
        assert not meaning.endswith(".")


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_examples_of_conditions_compile(driver: str, release: str) -> None:
    words = words_of(driver, release)
    for term in words.terms:
        compile_selector(cel_example(term, words), Features("1.36"))


def test_names_of_later_releases_have_their_release() -> None:
    words = words_of("gpu.nvidia.com", "25.8")
    assert words.later["resource.kubernetes.io/pciBusID"] == "25.12"
    assert words.later["DynamicMIG"] == "25.12"
    assert words.attribute("resource.kubernetes.io", "pciBusID") is None
    assert words_of("gpu.nvidia.com").later == {}


def test_nvidia_renamed_the_pci_address_and_dropped_numbers() -> None:
    old, new = words_of("gpu.nvidia.com", "25.3"), words_of("gpu.nvidia.com")
    assert {"pcieBusID", "index", "minor", "parentIndex"} <= {
        attribute.name.rpartition("/")[2] for attribute in old.attributes
    }
    renamed = new.renaming("gpu.nvidia.com/pcieBusID")
    assert renamed is not None
    assert (renamed.becomes, renamed.release, renamed.redefined) == ("resource.kubernetes.io/pciBusID", "25.12", False)
    assert old.renaming("gpu.nvidia.com/pcieBusID") is None


def test_amd_redefined_device_id() -> None:
    old, new = words_of("gpu.amd.com", "0.1"), words_of("gpu.amd.com", "1.0")
    before, after = old.attribute("gpu.amd.com", "deviceID"), new.attribute("gpu.amd.com", "deviceID")
    assert before is not None
    assert after is not None
    assert set(before.on) == {"amdgpu"}, "partitions had parentDeviceID"
    assert (before.shared, after.shared) == (False, True)
    renamed = new.renaming("gpu.amd.com/deviceID")
    assert renamed is not None
    assert renamed.redefined


def test_gates_are_off_by_default_and_have_a_helm_value() -> None:
    gate = words_of("gpu.nvidia.com").gate("MPSSupport")
    assert gate is not None
    assert (gate.default, gate.switch) == (False, "featureGates.MPSSupport=true")
    assert words_of("gpu.nvidia.com", "25.3").gates == ()
    cliques = words_of("compute-domain.nvidia.com").gate("ComputeDomainCliques")
    assert cliques is not None
    assert cliques.default


def test_values_of_charts() -> None:
    words = words_of("gpu.nvidia.com")
    assert "resources.computeDomains.enabled" in words.helm
    assert "resources-computeDomains.enabled" not in words.helm
    assert "featureGates.ComputeDomainCliques" in words.helm, "gates of every driver that the chart installs"
    assert "featureGates" not in words_of("gpu.nvidia.com", "25.3").helm
    assert words.helm == words_of("compute-domain.nvidia.com").helm


def test_extended_resources_of_classes() -> None:
    assert installed_classes()["gpu.nvidia.com"][1].extended_resource == "nvidia.com/gpu"
    before = words_of("gpu.nvidia.com", "25.12").device_class("gpu.nvidia.com")
    assert before is not None
    assert before.extended_resource == ""


@pytest.mark.parametrize(
    ("name", "intended"),
    [("nvidia-gpu", "gpu.nvidia.com"), ("nvidia-gpu-mig", "mig.nvidia.com"), ("amd-gpu", "gpu.amd.com")],
)
def test_commonly_guessed_class_names(name: str, intended: str) -> None:
    assert guessed_classes()[name] == intended


def test_drivers_are_found_by_vendor_and_common_mistake() -> None:
    assert vendors()["intel"] == ("gpu.intel.com", "gaudi.intel.com", "qat.intel.com")
    assert mistaken_drivers()["amd.com"] == "gpu.amd.com"


def test_vocabularies_are_cached() -> None:
    assert vocabulary("gpu.nvidia.com") is vocabulary("gpu.nvidia.com", "0.5-dev")
    words = words_of("gpu.nvidia.com")
    assert words.attributes_by_name is words.attributes_by_name


# --- changes and finding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", drivers())
def test_changes_cover_all_releases(driver: str) -> None:
    releases = words_of(driver).releases
    names = {term.name for term in words_of(driver, releases[0]).terms}
    for release, entries in changes(driver):
        for change in entries:
            if change.name_type in ("attribute", "capacity"):
                if change.change_type == "new":
                    names.add(change.name)
                elif change.change_type == "gone":
                    names.remove(change.name)
        assert names == {term.name for term in words_of(driver, release).terms}
    assert [release for release, _ in changes(driver)] == list(releases[1:])


def test_changes_name_the_replacement() -> None:
    (change,) = [change for change in dict(changes("gpu.amd.com"))["1.0"] if change.name == "gpu.amd.com/deviceID"]
    assert (change.change_type, change.becomes) == ("redefined", "resource.kubernetes.io/pciBusID")
    assert changes("gpu.somebody.example") == ()


@pytest.mark.parametrize(
    ("text", "sort", "name"),
    [
        ("memory", "capacity", "gpu.nvidia.com/memory"),
        ("productname", "attribute", "gpu.nvidia.com/productName"),
        ("mig.nvidia.com", "class", "mig.nvidia.com"),
        ("MPSSupport", "gate", "MPSSupport"),
        ("GpuConfig.sharing.strategy", "parameter", "GpuConfig.sharing.strategy"),
        ("Hopper", "value", "Hopper"),
        ("nvidiaDriverRoot", "chart value", "nvidiaDriverRoot"),
        ("pcieBusID", "earlier name", "gpu.nvidia.com/pcieBusID"),
        ("vram", "no such name", "vram"),
        ("nvidia-gpu", "no such name", "nvidia-gpu"),
    ],
)
def test_names_of_every_kind_are_found(text: str, sort: str, name: str) -> None:
    first = find(words_of("gpu.nvidia.com"), text)[0]
    assert (first.entry_type, first.name) == (sort, name)


def test_a_later_name_is_found_in_an_earlier_release() -> None:
    (word,) = [
        word for word in find(words_of("gpu.nvidia.com", "25.3"), "DynamicMIG") if word.entry_type == "later name"
    ]
    assert word.meaning == "available since release 25.12"


@given(st.sampled_from(EVERY), st.text(max_size=6))
def test_substring_matches_come_last(where: tuple[str, str], text: str) -> None:
    found = find(words_of(*where), text)
    assert all(text.casefold() in word.short_name.casefold() for word in found)
    exact = [word.short_name.casefold() == text.casefold() for word in found]
    assert not any(later and not earlier for earlier, later in itertools.pairwise(exact)), "exact names first"
