"""The tables of every driver and release: complete, consistent, quick to ask, and right where upstream is known."""

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
from allotment.vocabulary.lookup import find, reading


def words_of(driver: str, release: str = "") -> Vocabulary:
    words = vocabulary(driver, release)
    assert words is not None
    return words


EVERY = [(driver, release) for driver in drivers() for release in words_of(driver).releases]


def test_nobody_knows_other_drivers() -> None:
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
def test_releases_are_found_as_people_write_them(driver: str, written: str, known: str) -> None:
    assert words_of(driver, written).release == known


def test_an_unknown_release_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"no release 24\.1: expected one of 25\.3, 25\.8"):
        vocabulary("gpu.nvidia.com", "24.1")


@given(st.sampled_from(drivers()), st.text(alphabet="v0123456789.-dev", max_size=8))
def test_any_release_is_known_or_refused(driver: str, release: str) -> None:
    try:
        words = words_of(driver, release)
    except ValueError:
        return
    assert words.release in words.releases


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_tables_are_consistent(driver: str, release: str) -> None:
    words = words_of(driver, release)
    types = {one.name for one in words.types}
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
    assert all(set(one.types) <= types for one in words.classes)
    assert all(one.release in words.releases for one in words.renamed)
    assert set(words.later).isdisjoint(names)
    assert all(words.releases.index(since) > words.releases.index(release) for since in words.later.values())


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_what_is_offered_instead_of_a_wrong_name_is_there(driver: str, release: str) -> None:
    words = words_of(driver, release)
    published = {term.name for term in words.terms}
    for name, meant in words.guessed.items():
        assert meant in published
        assert f"{driver}/{name}" not in published
    for old in words.renamed:
        assert not old.becomes or old.becomes in published | {one.name for one in words.classes}, old.name
        assert old.redefined == (old.name in published) or old.kind == "class", old.name
    assert set(guessed_classes().values()) <= set(installed_classes())
    assert set(guessed_classes()).isdisjoint(installed_classes())
    assert set(mistaken_drivers()).isdisjoint(drivers())


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_meanings_are_short_lines(driver: str, release: str) -> None:
    words = words_of(driver, release)
    meanings = [one.meaning for one in (*words.terms, *words.classes, *words.gates, *words.types, *words.renamed)]
    for meaning in [*meanings, *words.helm.values()]:
        assert 0 < len(meaning) <= 100
        assert not meaning.endswith(".")


@pytest.mark.parametrize(("driver", "release"), EVERY)
def test_examples_of_conditions_compile(driver: str, release: str) -> None:
    words = words_of(driver, release)
    for term in words.terms:
        compile_selector(reading(term, words), Features("1.36"))


def test_a_name_that_came_later_is_known_with_its_release() -> None:
    words = words_of("gpu.nvidia.com", "25.8")
    assert words.later["resource.kubernetes.io/pciBusID"] == "25.12"
    assert words.later["DynamicMIG"] == "25.12"
    assert words.attribute("resource.kubernetes.io", "pciBusID") is None
    assert words_of("gpu.nvidia.com").later == {}


def test_nvidia_renamed_the_pci_address_and_dropped_numbers() -> None:
    old, new = words_of("gpu.nvidia.com", "25.3"), words_of("gpu.nvidia.com")
    assert {"pcieBusID", "index", "minor", "parentIndex"} <= {one.name.rpartition("/")[2] for one in old.attributes}
    renamed = new.renaming("gpu.nvidia.com/pcieBusID")
    assert renamed is not None
    assert (renamed.becomes, renamed.release, renamed.redefined) == ("resource.kubernetes.io/pciBusID", "25.12", False)
    assert old.renaming("gpu.nvidia.com/pcieBusID") is None


def test_amd_gave_device_id_another_meaning() -> None:
    old, new = words_of("gpu.amd.com", "0.1"), words_of("gpu.amd.com", "1.0")
    before, after = old.attribute("gpu.amd.com", "deviceID"), new.attribute("gpu.amd.com", "deviceID")
    assert before is not None
    assert after is not None
    assert set(before.on) == {"amdgpu"}, "partitions had parentDeviceID"
    assert (before.shared, after.shared) == (False, True)
    renamed = new.renaming("gpu.amd.com/deviceID")
    assert renamed is not None
    assert renamed.redefined


def test_gates_are_off_by_default_and_say_how_to_switch_them_on() -> None:
    gate = words_of("gpu.nvidia.com").gate("MPSSupport")
    assert gate is not None
    assert (gate.default, gate.switch) == (False, "featureGates.MPSSupport=true")
    assert words_of("gpu.nvidia.com", "25.3").gates == ()
    cliques = words_of("compute-domain.nvidia.com").gate("ComputeDomainCliques")
    assert cliques is not None
    assert cliques.default


def test_charts_values() -> None:
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
    ("name", "meant"),
    [("nvidia-gpu", "gpu.nvidia.com"), ("nvidia-gpu-mig", "mig.nvidia.com"), ("amd-gpu", "gpu.amd.com")],
)
def test_classes_that_people_guess(name: str, meant: str) -> None:
    assert guessed_classes()[name] == meant


def test_drivers_by_vendor_and_by_mistake() -> None:
    assert vendors()["intel"] == ("gpu.intel.com", "gaudi.intel.com", "qat.intel.com")
    assert mistaken_drivers()["amd.com"] == "gpu.amd.com"


def test_the_same_words_are_the_same_object() -> None:
    assert vocabulary("gpu.nvidia.com") is vocabulary("gpu.nvidia.com", "0.5-dev")
    words = words_of("gpu.nvidia.com")
    assert words.attributes_by_name is words.attributes_by_name


# --- changes and finding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", drivers())
def test_changes_lead_from_the_first_release_to_the_newest(driver: str) -> None:
    releases = words_of(driver).releases
    names = {term.name for term in words_of(driver, releases[0]).terms}
    for release, told in changes(driver):
        for change in told:
            if change.sort in ("attribute", "capacity"):
                if change.how == "new":
                    names.add(change.name)
                elif change.how == "gone":
                    names.remove(change.name)
        assert names == {term.name for term in words_of(driver, release).terms}
    assert [release for release, _ in changes(driver)] == list(releases[1:])


def test_changes_tell_what_took_a_names_place() -> None:
    (told,) = [one for one in dict(changes("gpu.amd.com"))["1.0"] if one.name == "gpu.amd.com/deviceID"]
    assert (told.how, told.becomes) == ("redefined", "resource.kubernetes.io/pciBusID")
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
def test_a_name_is_found_whatever_it_names(text: str, sort: str, name: str) -> None:
    first = find(words_of("gpu.nvidia.com"), text)[0]
    assert (first.sort, first.name) == (sort, name)


def test_a_later_name_is_found_in_an_earlier_release() -> None:
    (word,) = [one for one in find(words_of("gpu.nvidia.com", "25.3"), "DynamicMIG") if one.sort == "later name"]
    assert word.meaning == "since release 25.12"


@given(st.sampled_from(EVERY), st.text(max_size=6))
def test_finding_ends_with_words_that_have_the_text(where: tuple[str, str], text: str) -> None:
    found = find(words_of(*where), text)
    assert all(text.casefold() in word.bare.casefold() for word in found)
    exact = [word.bare.casefold() == text.casefold() for word in found]
    assert not any(later and not earlier for earlier, later in itertools.pairwise(exact)), "exact names first"
