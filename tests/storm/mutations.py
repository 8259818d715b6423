"""``python -m tests.storm.mutations``: no manifest, however broken, ends ``check`` with anything but findings.

Real and packaged manifests are broken at random, many times over (``mutated``); each is checked and told in some
format, and some are mended: with every comment kept, nothing unreadable made, and nothing left to do for a second time.
What raises is kept as a file and told with the number that makes it again.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from allotment.cli.check.github import commands
from allotment.cli.check.json_output import data
from allotment.cli.check.sarif import log
from allotment.cli.check.text_output import CheckReport, print_report
from allotment.cli.output.console import Screen
from allotment.model.features import RELEASES, Features
from allotment.model.loading import find_comments, load_text
from allotment.model.serialization import to_json
from allotment.tools.check.bundle import Bundle, CheckSettings, TargetCluster
from allotment.tools.check.catalog import rules_by_code
from allotment.tools.check.fixer import fix
from allotment.tools.check.policy import CheckPolicy
from tests.storm.mutated import mutated
from tests.unit.tools.check.bundles import world_of

FILE: Final = "mutated.yaml"
FLEET: Final = "1xa100-40gb/dynamic-mig,1xh100,1xmi300x"

_FORMATS: Final[tuple[Callable[[CheckReport], Any], ...]] = (
    lambda told: print_report(Screen(io.StringIO(), 80, colour=True), told),
    lambda told: to_json(data(told)),
    lambda told: to_json(log(told)),
    lambda told: list(commands(told.findings)),
)


def attempt(text: str, settings: CheckSettings, world: TargetCluster | None, mend: bool, form: int = 0) -> Counter[str]:
    """Check a text and tell of it, or mend it; how often each code was found."""
    loaded = load_text(text, FILE)
    bundle = Bundle(loaded.documents, settings, world, loaded.problems)
    if mend:
        return _mended(text, bundle)
    findings = CheckPolicy().evaluate(bundle, {FILE: text}).findings
    for finding in findings:
        assert finding.fix is None or rules_by_code()[finding.code].fixable, f"{finding.code} says that it has no fix"
    _FORMATS[form](CheckReport(findings, {FILE: text}, objects=len(bundle.documents)))
    return Counter(finding.code for finding in findings)


def _mended(text: str, bundle: Bundle) -> Counter[str]:
    def judge(one: Bundle) -> Any:
        return CheckPolicy().evaluate(one, _sources(one) or {FILE: text}, for_fixing=True).findings

    fixed = fix(bundle, unsafe=True, find=judge)
    new = fixed.texts.get(FILE, text)
    loaded = load_text(new, FILE)
    assert [one.code for one in loaded.problems] == [one.code for one in bundle.problems], "mending made it unreadable"
    if all(not document.origin.json for document in bundle.documents) and not bundle.problems:
        assert _remarks(new) == _remarks(text), "mending lost a comment"
    again = fix(
        Bundle(loaded.documents, bundle.settings, bundle.cluster, loaded.problems), unsafe=True, find=judge
    )  # fmt: skip
    assert not again.texts, f"mended twice: {sorted({finding.code for finding in again.applied})}"
    return Counter(finding.code for finding in fixed.remaining)


def _sources(bundle: Bundle) -> Mapping[str, str]:
    return {document.file: document.origin.source for document in bundle.documents}


def _remarks(text: str) -> Counter[str]:
    return Counter(comment.text.strip() for comment in find_comments(text).comments)


def sources(folders: Sequence[Path]) -> list[str]:
    """The manifests to break."""
    files = sorted(path for folder in folders for path in folder.rglob("*.yaml") if path.is_file())
    return [path.read_text("utf-8") for path in files if path.stat().st_size < 20_000]


def run(
    texts: Sequence[str], numbers: range, seed: int, keep: Path | None = None
) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Break and check, once for each number: how often each code was found, and what raised, told in full."""
    worlds = (None, None, world_of(fleet=FLEET))
    told: Counter[str] = Counter()
    raised: list[tuple[int, str]] = []
    for number in numbers:
        dice = random.Random(f"{seed}/{number}")
        text = mutated(dice, dice.choice(texts), dice.choice(texts))
        settings = CheckSettings(Features(kube=dice.choice(RELEASES)))
        world, mend, form = dice.choice(worlds), dice.random() < 0.4, dice.randrange(len(_FORMATS))
        try:
            told += attempt(text, settings, world, mend, form)
        except Exception:  # noqa: BLE001 - whatever it is, it is a defect to be told
            raised.append((number, traceback.format_exc()))
            if keep is not None:
                (keep / f"mutated-{seed}-{number}.yaml").write_text(text, "utf-8", "surrogatepass", newline="")
    return told, raised


def main() -> int:
    """Break many manifests and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of manifests (default: the packaged examples)")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for texts that raise")
    arguments = parser.parse_args()
    texts = sources(arguments.folders or [Path(__file__).parents[2] / "src/allotment/examples"])
    started = time.monotonic()
    numbers = range(arguments.first, arguments.first + arguments.count)
    told, raised = run(texts, numbers, arguments.seed, arguments.keep)
    took = time.monotonic() - started
    sys.stdout.write(f"{arguments.count:,} mutations of {len(texts)} manifests in {took:.0f} s: {len(raised)} raised\n")
    sys.stdout.write(", ".join(f"{code} {count}" for code, count in sorted(told.items())) + "\n")
    ends = Counter(story.strip().splitlines()[-1][:100] for _, story in raised)
    sys.stdout.writelines(f"{count} x {end}\n" for end, count in ends.most_common())
    shown: set[str] = set()
    for number, story in raised:
        end = story.strip().splitlines()[-1][:60]
        if end not in shown:
            shown.add(end)
            sys.stdout.write(f"--seed {arguments.seed}, number {number}:\n{story}\n")
    return 1 if raised else 0


if __name__ == "__main__":
    sys.exit(main())
