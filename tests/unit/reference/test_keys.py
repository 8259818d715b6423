"""The docstrings name the keys of what the functions return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pytest

from allotment import reference
from allotment.lab.state import Status


def documented(function: Callable[..., object], of: str = "") -> set[str]:
    """The keys in the docstring of a function: ``The keys of a rule: …``."""
    words = re.search(rf"The keys{of and f' of {of}'}: ([^.;]*)", " ".join((function.__doc__ or "").split()))
    assert words is not None, f"no keys of {of}"
    return set(re.findall(r"``(\w+)``", words[1]))


def used(values: Iterable[Mapping[str, Any]]) -> set[str]:
    return {key for value in values for key in value}


@pytest.mark.parametrize(
    ("function", "of"),
    [
        (reference.checks, "a check"),
        (reference.components, "a component"),
        (reference.examples, "a manifest"),
        (reference.instance_types, "a type"),
        (reference.metrics, "a metric"),
        (reference.rules, "a rule"),
    ],
)
def test_the_keys_of_listed_values(function: Callable[[], list[dict[str, Any]]], of: str) -> None:
    assert documented(function, of) == used(function())


def test_the_keys_of_hardware() -> None:
    found = reference.fleet()
    assert documented(reference.fleet) == set(found)
    servers = used(reference.hardware(each["id"]) for each in found["servers"])
    accelerators = used(reference.hardware(each["id"]) for each in found["accelerators"])
    assert documented(reference.hardware, "a server") == servers
    assert documented(reference.hardware, "an accelerator") == accelerators


def test_the_keys_of_vocabulary() -> None:
    known = reference.vocabulary()["drivers"]
    names = [each["driver"] for each in known]
    assert documented(reference.vocabulary, "a known driver") == used(known)
    published = used(reference.vocabulary(name)["drivers"][0] for name in names)
    assert documented(reference.vocabulary, "what it publishes") == published
    entries = (entry for name in names for part in "aeiou" for entry in reference.vocabulary(name, part)["found"])
    assert documented(reference.vocabulary, "an entry") == used(entries)


def test_the_keys_of_the_installation() -> None:
    assert documented(reference.versions) == set(reference.versions())
    assert documented(reference.labs, "a lab") == {field.encode_name for field in msgspec.structs.fields(Status)}
