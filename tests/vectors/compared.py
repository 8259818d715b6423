"""Compares the engine with kube-scheduler's allocator on random scenarios: ``python -m tests.vectors.compared``.

The program in ``upstream`` wraps the allocator of Kubernetes 1.37.2; building it needs Go and the modules that its
``go.sum`` pins. A scenario passes if both sides allocate the same devices in the same way, or fail for the same reason;
the plain `reference` must also take as many steps as upstream. Exit status: 0 all passed, 1 some differ, 2 upstream is
not available.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.vectors import allocator, reference
from tests.vectors.scenarios import Scenario, scenario_of_1_37

_SOURCE = Path(__file__).parent / "upstream"
_BATCH = 500
#: Limit of the reference's steps; longer searches are compared without steps.
_STEPS = 20_000

Json = dict[str, Any]


class UpstreamUnavailable(Exception):
    """Raised when the program cannot be built or run; the text is one line."""


def build(target: Path) -> Path:
    """Compile the program, and return its path."""
    go = shutil.which("go")
    if go is None:
        raise UpstreamUnavailable("Go is not installed (1.26 or newer is required)")
    command = [go, "build", "-o", str(target.absolute()), "."]
    done = subprocess.run(command, cwd=_SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().splitlines() or ["go build failed"]
        raise UpstreamUnavailable(f"`go build` in {_SOURCE} failed: {complaint[-1]}")
    return target


def random_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    chance = random.Random(seed)
    return scenario_of_1_37(lambda options: options[int(chance.random() * len(options))])


def as_case(name: str, made: Scenario) -> Json:
    """A scenario in the format of the allocator vectors, without an answer."""
    return {
        "name": name,
        "features": {feature: made.features.enabled(gate) for feature, gate in allocator.GATES.items()},
        "node": {
            "metadata": {"name": made.node.name, "labels": dict(made.node.labels)},
            "status": {"declaredFeatures": sorted(made.node.declared_features)},
        },
        "classes": _trees(made.classes),
        "slices": _trees(made.slices),
        "claimsToAllocate": _trees(made.claims),
        "allocatedClaims": _trees(made.held),
        "allocatedDevices": [],
        "allocatedSharedDeviceIDs": [],
        "allocatedCapacity": [],
    }


def _trees(values: Sequence[Any]) -> list[Json]:
    found: list[Json] = json.loads(msgspec.json.encode(list(values), enc_hook=str))
    return found


def answers(program: Path, cases: Sequence[Json]) -> Iterator[Json]:
    """Upstream's answers, in the order of the cases."""
    given = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([program], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UpstreamUnavailable(f"{program.name} failed: {done.stderr.strip()}")
    return map(json.loads, done.stdout.splitlines())


def compare(case: Json, wanted: Json) -> str:
    """The first difference from upstream's answer; empty if there is none."""
    if wanted["outcome"] == "undecided":
        return ""
    problem = allocator.difference(allocator.answer(case), {**wanted, "error": comparable_error(wanted["error"])})
    if problem:
        return problem
    node = case["node"]["metadata"]["name"]
    try:
        plain = reference.allocate(allocator.inventory(case), node, allocator.claims(case), limit=_STEPS)
    except reference.TooLong:
        return ""
    problem = allocator.difference(plain.outcome, {**wanted, "error": comparable_error(wanted["error"])})
    if problem:
        return f"reference: {problem}"
    return "" if plain.steps == wanted["steps"] else f"reference: {plain.steps} steps, not {wanted['steps']}"


def comparable_error(text: str) -> str:
    """An error without the words that name internals of Go, or that differ from run to run."""
    # Of several capacities at fault upstream names any.
    for own_words in ("unsupported CEL return type: ", "CEL compile error: ", ': capacity "'):
        text = text.partition(own_words)[0]
    return text


def properties(case: Json, wanted: Json) -> Iterator[str]:
    """The properties of a case that the summary counts."""
    yield f"outcome {wanted['outcome']}"
    text = json.dumps([case["slices"], case["claimsToAllocate"]])
    for field in ("derivedAttributes", "compatibilityGroups", "skipNodeOperations", "validRange", "firstAvailable"):
        if f'"{field}"' in text:
            yield f"uses {field}"
            yield f"uses {field}, {wanted['outcome']}"
    yield from (f"off {feature}" for feature, on in case["features"].items() if not on)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors.compared", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="number of scenarios (5000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first scenario (1)")
    parser.add_argument("--program", type=Path, help="the built program (built if not given)")
    given = parser.parse_args(arguments)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "allotment" / "vectors"
    seen: Counter[str] = Counter()
    failed = 0
    try:
        if given.program is None:
            cache.mkdir(parents=True, exist_ok=True)
        program = given.program or build(cache / "allocator-1.37")
        for first in range(given.seed, given.seed + given.count, _BATCH):
            seeds = range(first, min(first + _BATCH, given.seed + given.count))
            cases = [as_case(str(seed), random_scenario(seed)) for seed in seeds]
            for case, wanted in zip(cases, answers(program, cases), strict=True):
                seen.update(properties(case, wanted))
                problem = compare(case, wanted)
                if problem:
                    failed += 1
                    print(f"DIFFERS seed {case['name']}: {problem}")
    except UpstreamUnavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, number in sorted(seen.items()):
        print(f"{number:7} {name}")
    print(f"same answer in {given.count - failed} of {given.count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
