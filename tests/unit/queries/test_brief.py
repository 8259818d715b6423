"""Short answers: at most two kilobytes, whole codes and remedies, and counts of what is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.queries.brief import BRIEF, brief, limited, size
from allotment.queries.questions import meanings


def refused(name: str, **headline: Any) -> dict[str, Any]:
    """The answer of `why` for a pod."""
    known = {"code": "devices-in-use", "summary": "no device is free", **headline}
    return {"kind": "Pod", "name": name, "outcome": "refused", "reasons": {"headline": known, "nodes": []}}


def test_pods_with_the_same_reason_are_one_group() -> None:
    answers = [refused(f"ml/train-{number}") for number in range(5000)]
    found = brief("why", {"fits": False, "answers": answers, "notes": []})
    (group,) = found["pending"]
    assert (group["count"], group["names"], group["code"]) == (5000, ["ml/train-0", "ml/train-1", "ml/train-2"],
                                                              "devices-in-use")  # fmt: skip
    assert size(found) <= BRIEF


def test_groups_that_do_not_fit_are_counted() -> None:
    answers = [refused(f"ml/train-{number}", summary=f"reason {number} " * 10) for number in range(3000)]
    found = brief("why", {"fits": False, "answers": answers, "notes": []})
    assert size(found) <= BRIEF
    assert len(found["pending"]) + found["omitted"]["pending"] == 3000
    assert found["pods"] == 3000


def test_remedies_are_never_shortened_to_a_part_of_them() -> None:
    changes = [{"text": f"change {number} of the manifest: {'x' * 60}"} for number in range(12)]
    answers = [refused("ml/train", changes=changes, kubernetes="cannot allocate all claims")] + [
        refused(f"ml/other-{number}", summary=f"reason {number}") for number in range(50)
    ]
    found = brief("why", {"fits": False, "answers": answers, "notes": []})
    assert size(found) <= BRIEF
    assert len(found["pending"][0]["remedies"]) == 12


def test_a_command_is_whole_or_left_out() -> None:
    patch = "kubectl patch deployment web -n ml --type json -p '" + "x" * 500 + "'"
    answer = refused("ml/train")
    answer["next"] = patch
    found = brief("why", {"fits": False, "answers": [answer], "notes": []})
    assert "next" not in found["pending"][0]
    assert found["omitted"] == {"next": 1}


@pytest.mark.parametrize("code", list(meanings()))
def test_the_meaning_of_every_code_is_short(code: str) -> None:
    found = brief("explain-code", meanings()[code])
    assert found["code"].lower() == code
    assert size(found) <= BRIEF


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=80,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(_JSON, max_size=20), max_size=3))
def test_any_lists_are_shortened_to_the_limit_or_to_one_item_each(data: dict[str, Any]) -> None:
    found = limited(data, 1000)
    if size(found) > 1000:
        assert all(len(values) <= 1 for name, values in found.items() if name != "omitted")
    for name, values in data.items():
        assert len(found[name]) + found.get("omitted", {}).get(name, 0) >= min(len(values), 1)
