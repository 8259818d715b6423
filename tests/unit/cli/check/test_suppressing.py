"""Comments that suppress findings, and unused ones."""

from __future__ import annotations

import pytest

from tests.unit.cli.check.conftest import Write
from tests.unit.cli.conftest import Allot

OLD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: old"


def findings(allot: Allot, text: str, write: Write, *words: str) -> list[str]:
    write({"a.yaml": text})
    ran = allot("check", "a.yaml", "-o", "concise", *words)
    assert ran.err == ""
    return [line.removeprefix("a.yaml:") for line in ran.out.splitlines() if line.startswith("a.yaml:")]


@pytest.mark.parametrize(
    "text",
    [
        f"{OLD}  # allot: ignore[S191]\n",
        f"{OLD}  # allot: ignore[S]\n",
        f"{OLD}  # allot: ignore[M491, old-name] - it is called so elsewhere\n".replace("M491, ", ""),
        f"{OLD}  # allot: ignore\n",
        f"{OLD}  #allot:ignore[s191]\n",
        OLD.replace("  name", "  # allot: ignore[S191]\n  # more words\n  name") + "\n",
        OLD.replace("  name", "  # allot: ignore[S191]\n\n  # more words\n\n  name") + "\n",
        f"# allot: ignore-file[S191]\n{OLD}\n",
        f"# allot: ignore-file\n---\n{OLD}\n---\n{OLD}\n",
        f"# allot: ignore-document[S191]\n{OLD}\n",
        f"---\n# words\n\n# allot: ignore-document\n{OLD}\n",
    ],
)
def test_a_finding_is_suppressed(allot: Allot, write: Write, text: str) -> None:
    assert findings(allot, text, write) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{OLD}\n# allot: ignore[S191]\n", ["4:9 S191 [*]", "5:1 S116"]),
        (f"{OLD}  # allot: ignore[V]\n", ["4:9 S191 [*]", "4:14 S116"]),
        (f"{OLD}\nnote: >-\n  words\n  # allot: ignore-file\n", ["4:9 S191 [*]"]),
        (f'{OLD}\nnote: "# allot: ignore-file"\n', ["4:9 S191 [*]"]),
        (f"{OLD}  # allot: ignore-file\n", ["4:9 S191 [*]", "4:14 S116"]),
        (f"# allot: ignore-document\n{OLD}\n---\n{OLD}\n", ["10:9 S191 [*]"]),
        (f"apiVersion: v1\nkind: Thing\n---\n# allot: ignore-file\n{OLD}\n", ["4:1 S116", "8:9 S191 [*]"]),
        (f"{OLD}  # allot: ignore S191\n", ["4:9 S191 [*]", "4:14 S116"]),
        (f"{OLD}  # allot: ignor[S191]\n", ["4:9 S191 [*]", "4:14 S116"]),
        (f"{OLD}  # allot: ignore[S191, W3]\n", ["4:14 S116"]),
    ],
)
def test_a_comment_suppresses_findings_only_at_its_position(
    allot: Allot, write: Write, text: str, found: list[str]
) -> None:
    assert [line.partition(" note:")[0].partition(" `")[0] for line in findings(allot, text, write)] == found


def test_comment_on_a_block_covers_its_content(allot: Allot, write: Write) -> None:
    text = "apiVersion: v1\nkind: Thing\nnote: |-  # allot: ignore[V391]\n  one\n  gues\n"
    assert findings(allot, text, write) == []
    assert findings(allot, text.replace("  # allot: ignore[V391]", ""), write) != []
    above = "apiVersion: v1\nkind: Thing\n# allot: ignore[V391]\nnote: |-\n  one\n  gues\n"
    assert findings(allot, above, write) == []


def test_unused_suppression_is_reported_with_hint(allot: Allot, write: Write) -> None:
    text = "apiVersion: v1  # allot: ignore[S191]\nkind: Thing  # allot: ignor\n"
    assert findings(allot, text, write) == [
        "1:17 S116 note: S191 has no finding here: this comment has no effect",
        '2:14 S116 note: unknown directive allot: ignor. Did you mean "ignore"?',
    ]


def test_comments_for_unselected_rules_are_not_unused(allot: Allot, write: Write) -> None:
    text = "apiVersion: v1  # allot: ignore[S191]\nkind: Thing  # allot: ignore\n"
    assert findings(allot, text, write, "--ignore", "S191") == []
    assert findings(allot, text, write, "--select", "V,S116") == []
    assert findings(allot, text, write, "--ignore", "S116") == []


def test_comment_at_the_top_covers_unreadable_documents(allot: Allot, write: Write) -> None:
    assert findings(allot, "# allot: ignore-file\na: [\n", write) == []


def test_suppressed_findings_are_counted(allot: Allot, write: Write) -> None:
    write({"a.yaml": f"{OLD}  # allot: ignore[S191]\n"})
    assert allot("check").out == "The object in 1 file is fine.\n1 finding suppressed by comments.\n"


def test_per_file_ignores_do_not_make_comments_unused(allot: Allot, write: Write) -> None:
    text = f"{OLD}  # allot: ignore[S191]\n"
    write({"allotment.toml": '[check.per-file-ignores]\n"a.yaml" = ["S191"]\n'})
    assert findings(allot, text, write) == []
    assert findings(allot, text.replace("S191", "V391"), write) == [
        "4:14 S116 note: V391 has no finding here: this comment has no effect"
    ]
    write({"allotment.toml": '[check.per-file-ignores]\n"a.yaml" = ["S"]\n'})
    assert findings(allot, text.replace("S191", "V391"), write) == []


def test_unknown_rule_suggests_similar_ones(allot: Allot, write: Write) -> None:
    assert findings(allot, f"{OLD}  # allot: ignore[S191, X999]\n", write) == ["4:14 S116 note: unknown rule X999"]
    assert findings(allot, f"{OLD}  # allot: ignore[S191, old-nam]\n", write) == [
        '4:14 S116 note: unknown rule old-nam. Did you mean "old-name"?'
    ]
