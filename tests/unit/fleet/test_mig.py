"""Static MIG layouts: placements, limits and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet.errors import FleetError
from allotment.fleet.mig import DIMENSIONS, parse_layout, totals
from allotment.fleet.profiles import accelerators

A100 = accelerators()["nvidia-a100-sxm4-40gb"]


def places(text: str) -> list[tuple[str, int]]:
    return [(piece.profile.name, piece.start) for piece in parse_layout(text, A100)]


def test_mig_devices_get_the_first_placement_that_leaves_room_for_the_rest() -> None:
    assert places("1g.5gb:7") == [("1g.5gb", n) for n in range(7)]
    assert places("3g.20gb+2g.10gb+1g.5gb") == [("3g.20gb", 0), ("2g.10gb", 4), ("1g.5gb", 6)]
    # 4g fits only at start 0, so the earlier 2g is placed elsewhere.
    assert places("2g.10gb+4g.20gb") == [("2g.10gb", 4), ("4g.20gb", 0)]


def test_a_plus_sign_can_belong_to_the_profile() -> None:
    assert places("1g.5gb+me+3g.20gb") == [("1g.5gb+me", 0), ("3g.20gb", 4)]
    assert places("full") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1g.5gb:8", r"fits at most 7 × 1g\.5gb; 8 requested"),
        ("3g.20gb:2+1g.5gb", r"does not fit on one NVIDIA A100-SXM4-40GB"),
        ("1g.6gb", r"has no profile '1g\.6gb'"),
        ("1g.5gb:x", r"expected a count after 1g\.5gb:, found 'x'"),
        ("1g.5gb:0", r"expected a count after 1g\.5gb:, found '0'"),
        ("", r"has no profile ''"),
    ],
)
def test_an_invalid_layout_is_explained(text: str, expected: str) -> None:
    with pytest.raises(FleetError, match=expected):
        parse_layout(text, A100)


def test_a_misspelt_profile_gets_a_suggestion() -> None:
    with pytest.raises(FleetError) as caught:
        parse_layout("1g.6gb", A100)
    assert "1g.5gb" in caught.value.hint


@given(st.data())
def test_every_accepted_layout_is_disjoint_and_within_the_totals(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from([a for a in accelerators().values() if a.mig]))
    assert model.mig is not None
    names = data.draw(st.lists(st.sampled_from([p.name for p in model.mig.profiles]), min_size=1, max_size=8))
    try:
        placed = parse_layout("+".join(names), model)
    except FleetError:
        return
    taken = [n for piece in placed for n in piece.slices]
    assert len(taken) == len(set(taken))
    assert max(taken) < model.mig.memory_slices
    assert [piece.profile.name for piece in placed] == names
    for field, _, _ in DIMENSIONS:
        assert sum(getattr(piece.profile, field) for piece in placed) <= totals(model.mig)[field]
