"""Manifests with arbitrary values: each is migrated or left unchanged, without a crash."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from allotment.model.loading import load_paths, load_text
from allotment.model.serialization import to_yaml
from allotment.tools.migrate.run import migrate
from tests.unit.tools.migrate.manifests import target

CORPUS: Final = Path(__file__).parents[3] / "corpus" / "migrate" / "before"
TREES: Final = [d.tree for file in sorted(CORPUS.glob("*.yaml")) for d in load_paths([file]).documents]
JUNK: Final[tuple[Any, ...]] = (
    None, 0, -1, 1.5, True, "", "x", [], {}, ["a"], [1], {"a": 1}, [None], {"nvidia.com/gpu": "many"}, [{"key": 1}],
)  # fmt: skip
TARGETS: Final = (target(), target(fleet="l4/shared"), target("1.35", strategy="claims"), target(strategy="class"))


def value_paths(tree: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values below the root."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [each for key, value in pairs for each in ((*path, key), *value_paths(value, (*path, key)))]


@st.composite
def odd(draw: st.DrawFn) -> str:
    """A manifest of the corpus with one value removed or replaced."""
    tree = copy.deepcopy(draw(st.sampled_from(TREES)))
    path = draw(st.sampled_from(value_paths(tree)))
    holder: Any = tree
    for step in path[:-1]:
        holder = holder[step]
    if isinstance(holder, dict) and draw(st.booleans()):
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return to_yaml([tree])


@given(odd(), st.sampled_from(TARGETS))
def test_any_manifest_is_migrated_and_stays_readable(text: str, to: Any) -> None:
    documents = load_text(text, "a.yaml").documents
    migration = migrate(documents, to)
    assert not migration.unwritten
    assert len(migration.after) >= len(documents)
    for workload_ in migration.workloads:
        assert workload_.decision.reason
        assert workload_.decision.changes == bool(workload_.claim_name)
