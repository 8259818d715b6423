"""``python -m tests.storm.mutations``: no manifest, however broken, ends ``check`` with anything but findings.

Real and packaged manifests are broken at random (lines lost, doubled, moved and indented, values of other types, keys
misspelt, expressions cut, bytes of all kinds), many times over; each is checked, and some are mended too. What raises
is kept as a file and told with the number that makes it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from allotment.model.features import RELEASES, Features
from allotment.model.loading import load_text
from allotment.tools.check.bundle import Bundle, Settings, World
from allotment.tools.check.fixing import fix
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import world_of

Mutation = Callable[[random.Random, list[str]], None]

_WORDS: Final = (
    "null", "[]", "{}", "''", "true", "-1", "1e400", "0x10", "80Gi", "8.0", "&a", "*a", "!!int x", "|", ">-", "%",
    "- -", "99999999999999999999", "{a: {b: [c]}}", "\u0007", "\ud7ff", "é" * 70, "~", "? x", "<<: *a", "'", '"',
    "#", "---", "...",
)  # fmt: skip
_FIELDS: Final = (
    "requests", "exactly", "firstAvailable", "selectors", "cel", "expression", "constraints", "config", "opaque",
    "parameters", "resourceClaims", "containers", "claims", "metadata", "spec", "name", "count", "devices", "pool",
    "basic",
)  # fmt: skip
_CEL: Final = (
    "(",
    ")",
    "&&",
    "device",
    ".?",
    "[",
    "]",
    '"',
    "quantity(",
    ">=",
    "in",
    "!",
    "semver('8')",
    "{",
    "∀",
    ".string",
)


def _line(dice: random.Random, lines: list[str]) -> int:
    return dice.randrange(len(lines)) if lines else 0


def _lose(dice: random.Random, lines: list[str]) -> None:
    if lines:
        del lines[_line(dice, lines)]


def _double(dice: random.Random, lines: list[str]) -> None:
    if lines:
        lines.insert(_line(dice, lines), lines[_line(dice, lines)])


def _indent(dice: random.Random, lines: list[str]) -> None:
    if lines:
        number = _line(dice, lines)
        lines[number] = dice.choice(("  ", "    ", "\t", " ")) + lines[number]


def _outdent(dice: random.Random, lines: list[str]) -> None:
    if lines:
        number = _line(dice, lines)
        lines[number] = lines[number].removeprefix("  ")


def _value(dice: random.Random, lines: list[str]) -> None:
    if lines:
        number = _line(dice, lines)
        lines[number] = lines[number].partition(":")[0] + ": " + dice.choice(_WORDS)


def _key(dice: random.Random, lines: list[str]) -> None:
    if lines:
        number = _line(dice, lines)
        before, colon, after = lines[number].partition(":")
        space = before[: len(before) - len(before.lstrip(" -"))]
        lines[number] = space + dice.choice(_FIELDS) + (colon or ":") + after


def _letter(dice: random.Random, lines: list[str]) -> None:
    if lines:
        number = _line(dice, lines)
        at = dice.randint(0, len(lines[number]))
        lines[number] = lines[number][:at] + dice.choice((*_WORDS, *_CEL, "x", "")) + lines[number][at + 1 :]


def _cut(dice: random.Random, lines: list[str]) -> None:
    del lines[_line(dice, lines) :]


def _expression(dice: random.Random, lines: list[str]) -> None:
    places = [number for number, line in enumerate(lines) if "device." in line]
    if places:
        number = dice.choice(places)
        at = dice.randint(0, len(lines[number]))
        lines[number] = lines[number][:at] + dice.choice(_CEL) + lines[number][at + dice.randint(0, 4) :]


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    _lose, _double, _indent, _outdent, _value, _value, _key, _letter, _cut, _expression, _expression,
)  # fmt: skip


def mutated(dice: random.Random, text: str, other: str) -> str:
    """The text broken in one to four ways; sometimes with a piece of another behind it."""
    lines = text.split("\n")
    if dice.random() < 0.1:
        lines += ["---", *other.split("\n")]
    for _ in range(dice.randint(1, 4)):
        dice.choice(_MUTATIONS)(dice, lines)
    return dice.choice(("\n", "\n", "\n", "\r\n")).join(lines)


def attempt(text: str, settings: Settings, world: World | None, mend: bool) -> Counter[str]:
    """Check a text, and mend it where asked; how often each code was found."""
    loaded = load_text(text, "mutated.yaml")
    bundle = Bundle(loaded.documents, settings, world, loaded.problems)
    if mend:
        fixed = fix(bundle, unsafe=True)
        for file, mended in fixed.texts.items():
            assert not load_text(mended, file).problems or loaded.problems, "mending made it unreadable"
        return Counter(finding.code for finding in fixed.remaining)
    return Counter(finding.code for finding in check(bundle))


def sources(folders: Sequence[Path]) -> list[str]:
    """The manifests to break."""
    files = sorted(path for folder in folders for path in folder.rglob("*.yaml") if path.is_file())
    return [path.read_text("utf-8") for path in files if path.stat().st_size < 20_000]


def run(texts: Sequence[str], count: int, seed: int, keep: Path | None = None) -> tuple[Counter[str], list[str]]:
    """Break and check ``count`` times: how often each code was found, and what raised, told in full."""
    worlds = (None, None, world_of(fleet="1xa100-40gb/dynamic-mig,1xh100,1xmi300x"))
    told: Counter[str] = Counter()
    raised: list[str] = []
    for number in range(count):
        dice = random.Random(f"{seed}/{number}")
        text = mutated(dice, dice.choice(texts), dice.choice(texts))
        settings = Settings(Features(kube=dice.choice(RELEASES)))
        try:
            told += attempt(text, settings, dice.choice(worlds), mend=dice.random() < 0.2)
        except Exception:  # noqa: BLE001 - whatever it is, it is a defect to be told
            raised.append(f"--seed {seed}, number {number}:\n{traceback.format_exc()}")
            if keep is not None:
                (keep / f"mutated-{seed}-{number}.yaml").write_text(text, "utf-8", "surrogatepass")
    return told, raised


def main() -> int:
    """Break many manifests and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of manifests (default: the packaged examples)")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for texts that raise")
    arguments = parser.parse_args()
    texts = sources(arguments.folders or [Path(__file__).parents[2] / "src/allotment/examples"])
    started = time.monotonic()
    told, raised = run(texts, arguments.count, arguments.seed, arguments.keep)
    took = time.monotonic() - started
    sys.stdout.write(f"{arguments.count:,} mutations of {len(texts)} manifests in {took:.0f} s: {len(raised)} raised\n")
    sys.stdout.write(", ".join(f"{code} {count}" for code, count in sorted(told.items())) + "\n")
    for story in raised[:5]:
        sys.stdout.write(story + "\n")
    return 1 if raised else 0


if __name__ == "__main__":
    sys.exit(main())
