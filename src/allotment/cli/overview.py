"""The help of ``allot`` itself: what people want to do with the command for it, then all commands by topic.

Without arguments, ``allot`` prints only the first steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.cli import kubectl_plugin

#: The first steps with and without a cluster: the arguments of ``allot``, and what they do.
FIRST_STEPS: Final = (
    ("With a cluster:", (
        ("doctor", "find its problems"),
        ("explain POD", "find out why a pod is pending"),
        ("free", "see which devices are free"),
        ("web", "see all this in the browser"),
    )),
    ("Without a cluster:", (
        ("check app.yaml", "find mistakes in a manifest"),
        ("explain -f app.yaml --fleet t4", "test it on hardware"),
        ("tutorial", "learn it in a lab, step by step"),
    )),
)  # fmt: skip
#: What to do, and the arguments of ``allot`` for it; the most frequent first.
GOALS: Final = (
    ("find out why a pod is pending", "explain POD"),
    ("test a manifest on hardware", "explain -f app.yaml --fleet t4"),
    ("write a claim for what you need", "claim --gpus 1 --memory 80GB"),
    ("check and repair manifests", "check app.yaml --fix"),
    ("see which devices are free", "free"),
    ("see a cluster in the browser", "web"),
    ("find problems in a cluster", "doctor"),
    ("see what machines would cost", "plan app.yaml"),
    ("migrate from device plugins", "migrate app.yaml"),
    ("learn it, step by step", "tutorial"),
    ("run a cluster on this computer", "up --fleet dgx-a100-40gb:2"),
    ("see examples run in a cluster", "demo"),
)
#: All commands by topic.
GROUPS: Final = (
    ("pods and devices", ("explain", "free", "web", "top", "mcp", "doctor", "metrics", "snapshot")),
    ("manifests", ("claim", "check", "rule", "migrate", "schema", "vocabulary")),
    ("hardware and cost", ("plan", "fleet", "catalog", "replay")),
    ("lab: a local cluster", ("up", "status", "down", "lab", "envtest", "demo", "examples", "tutorial")),
    ("like kubectl", ("apply", "get", "describe", "logs", "wait", "delete")),
    ("parts of a cluster", ("driver", "run", "autoscale", "cluster-autoscaler", "rbac")),
    ("other", ("completion", "version")),
)
_ABOUT: Final = """\
Dynamic Resource Allocation for GPUs: show which devices a workload gets, or why
it gets none.
"""
_END: Final = """\
Without -f, --cluster and --fleet, commands use the running lab, or else the
current context of kubectl. For --cluster FILE, save a snapshot with allot
snapshot -o FILE; for --fleet, allot fleet list lists the hardware.

Exit codes: 0 success, 1 something does not fit, 2 invalid input, 3 internal
error (allot --debug COMMAND shows the traceback).
"""


def first_steps() -> str:
    """Return what ``allot`` prints without arguments.

    >>> first_steps().splitlines()[2]
    '  allot doctor                          find its problems'
    """
    program = kubectl_plugin.name()
    width = max(len(words) for _, steps in FIRST_STEPS for words, _ in steps)
    lines = ["Allotment shows which devices a workload gets, or why it gets none."]
    for place, steps in FIRST_STEPS:
        lines.append(place)
        lines += [f"  {program} {words:<{width}}  {purpose}" for words, purpose in steps]
    return "\n".join([*lines, f"{program} --help lists all commands.", ""])


def overview() -> str:
    """Return the help text.

    >>> overview().splitlines()[6]
    '  find out why a pod is pending    allot explain POD'
    """
    program = kubectl_plugin.name()
    return "\n".join(
        [f"usage: {program} COMMAND [ARGUMENT ...]", "", _ABOUT, *_goals(program), "", *_groups(), "", _END]
    )


def _goals(program: str) -> Iterator[str]:
    width = max(len(goal) for goal, _ in GOALS)
    yield "What do you want to do?"
    for goal, words in GOALS:
        yield f"  {goal:<{width}}  {program} {words}"


def _groups() -> Iterator[str]:
    width = max(len(topic) for topic, _ in GROUPS)
    yield "All commands (COMMAND --help has examples and options):"
    for topic, names in GROUPS:
        yield f"  {topic:<{width}}  {', '.join(names)}"
