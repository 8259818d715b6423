"""``python -m tests.storm.mutations``: ``check`` handles every broken manifest, and only reports findings.

Real and packaged manifests are mutated at random, many times over (``mutated``); each is checked and reported in some
format, and some are fixed: every comment is kept, the result can be parsed, and a second run fixes nothing more. A text
that raises an exception is kept as a file and reported with the number that generates it again.
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
from allotment.cli.check.text_output import print_report
from allotment.cli.output.console import Screen
from allotment.model.features import Features
from allotment.model.loading import find_comments, load_text
from allotment.model.releases import RELEASES
from allotment.model.serialization import to_json
from allotment.tools.check.bundle import Bundle, CheckSettings, TargetCluster
from allotment.tools.check.catalog import rules_by_code
from allotment.tools.check.fixer import fix
from allotment.tools.check.policy import CheckPolicy
from allotment.tools.check.report import CheckReport
from tests.storm.mutators import mutate
from tests.unit.tools.check.bundles import world_of

FILE: Final = "mutated.yaml"
FLEET: Final = "1xa100-40gb/dynamic-mig,1xh100,1xmi300x"

_FORMATS: Final[tuple[Callable[[CheckReport], Any], ...]] = (
    lambda report: print_report(Screen(io.StringIO(), 80, colour=True), report),
    lambda report: to_json(report.to_dict()),
    lambda report: to_json(report.to_sarif()),
    lambda report: list(commands(report.findings)),
)


def attempt(
    text: str, settings: CheckSettings, cluster: TargetCluster | None, fixing: bool, output_format: int = 0
) -> Counter[str]:
    """Check a text and report it, or fix it; return how often each code was found."""
    loaded = load_text(text, FILE)
    bundle = Bundle(loaded.documents, settings, cluster, loaded.problems)
    if fixing:
        return _check_fix(text, bundle)
    findings = CheckPolicy().evaluate(bundle, {FILE: text}).findings
    for finding in findings:
        assert finding.fix is None or rules_by_code()[finding.code].fixable, f"{finding.code} says that it has no fix"
    _FORMATS[output_format](CheckReport(findings, {FILE: text}, objects=len(bundle.documents)))
    return Counter(finding.code for finding in findings)


def _check_fix(text: str, bundle: Bundle) -> Counter[str]:
    def find(fixed_bundle: Bundle) -> Any:
        return CheckPolicy().evaluate(fixed_bundle, _sources(fixed_bundle) or {FILE: text}, for_fixing=True).findings

    fixed = fix(bundle, unsafe=True, find=find)
    new = fixed.texts.get(FILE, text)
    loaded = load_text(new, FILE)
    assert [problem.code for problem in loaded.problems] == [problem.code for problem in bundle.problems], (
        "the fixed text cannot be parsed"
    )
    if all(not document.origin.json for document in bundle.documents) and not bundle.problems:
        assert _comments(new) == _comments(text), "the fixed text lacks a comment"
    again = fix(
        Bundle(loaded.documents, bundle.settings, bundle.cluster, loaded.problems), unsafe=True, find=find
    )  # fmt: skip
    assert not again.texts, f"not fixed in one run: {sorted({finding.code for finding in again.applied})}"
    return Counter(finding.code for finding in fixed.remaining)


def _sources(bundle: Bundle) -> Mapping[str, str]:
    return {document.file: document.origin.source for document in bundle.documents}


def _comments(text: str) -> Counter[str]:
    return Counter(comment.text.strip() for comment in find_comments(text).comments)


def sources(folders: Sequence[Path]) -> list[str]:
    """The manifests to mutate."""
    files = sorted(path for folder in folders for path in folder.rglob("*.yaml") if path.is_file())
    return [path.read_text("utf-8") for path in files if path.stat().st_size < 20_000]


def run(
    texts: Sequence[str], numbers: range, seed: int, keep: Path | None = None
) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Mutate and check once for each number; return how often each code was found, and the exceptions with
    tracebacks."""
    worlds = (None, None, world_of(fleet=FLEET))
    counts: Counter[str] = Counter()
    raised: list[tuple[int, str]] = []
    for number in numbers:
        rng = random.Random(f"{seed}/{number}")
        text = mutate(rng, rng.choice(texts), rng.choice(texts))
        settings = CheckSettings(Features(kube=rng.choice(RELEASES)))
        objects, fixing, form = rng.choice(worlds), rng.random() < 0.4, rng.randrange(len(_FORMATS))
        try:
            counts += attempt(text, settings, objects, fixing, form)
        except Exception:  # noqa: BLE001 - whatever it is, it is a defect to be told
            raised.append((number, traceback.format_exc()))
            if keep is not None:
                (keep / f"mutated-{seed}-{number}.yaml").write_text(text, "utf-8", "surrogatepass", newline="")
    return counts, raised


def main() -> int:
    """Mutate many manifests and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of manifests (default: the packaged examples)")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="first number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for texts that raise an exception")
    arguments = parser.parse_args()
    texts = sources(arguments.folders or [Path(__file__).parents[2] / "src/allotment/examples"])
    started = time.monotonic()
    numbers = range(arguments.first, arguments.first + arguments.count)
    counts, raised = run(texts, numbers, arguments.seed, arguments.keep)
    elapsed = time.monotonic() - started
    sys.stdout.write(
        f"{arguments.count:,} mutations of {len(texts)} manifests in {elapsed:.0f} s: {len(raised)} raised\n"
    )
    sys.stdout.write(", ".join(f"{code} {count}" for code, count in sorted(counts.items())) + "\n")
    ends = Counter(text_.strip().splitlines()[-1][:100] for _, text_ in raised)
    sys.stdout.writelines(f"{count} x {end}\n" for end, count in ends.most_common())
    shown: set[str] = set()
    for number, text_ in raised:
        end = text_.strip().splitlines()[-1][:60]
        if end not in shown:
            shown.add(end)
            sys.stdout.write(f"--seed {arguments.seed}, number {number}:\n{text_}\n")
    return 1 if raised else 0


if __name__ == "__main__":
    sys.exit(main())
