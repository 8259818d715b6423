"""What is made from the program, so that it cannot say anything else: ``python -m tests.packaging.made_files``.

The chart's rules come from the table of permissions, its dashboards and alerts from that of metrics, its DeviceClasses
from those that a lab has; what kustomize takes comes from the chart, by helm; the page's table from the chart's
values; the glossary from the word list of the project. Tests compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import yaml

from allotment.cli.metrics import alert_files, dashboard_files
from allotment.fleet.amd import DRIVER as AMD_DRIVER
from allotment.fleet.device_classes import CLASSES
from allotment.fleet.nvidia import DRIVER as NVIDIA_DRIVER
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree, to_tree
from allotment.tools.permissions.admission_policy import own_node_policy
from allotment.tools.permissions.components import COMPONENTS
from allotment.tools.permissions.roles import rule_tree
from allotment.tools.permissions.rule import ComponentPermissions, PermissionRule
from tests.language import glossary
from tests.packaging import helm, values_page

DRIVERS: Final = {"nvidia": NVIDIA_DRIVER, "amd": AMD_DRIVER}
#: Parts of which the chart has no rules as they are: drivers have their own, by name, and what serves
#: cluster-autoscaler runs in that one's pod.
ELSEWHERE: Final = ("driver", "cluster-autoscaler")
#: Hardware that kustomize has simulated, with the DeviceClasses for it.
SIMULATED: Final = {"driver.nvidia": "8xa100-40gb/dynamic-mig"}
#: Components of the chart, as kustomize has them.
PIECES: Final = ("exporter", "annotator", "scheduler", "claims", "taints", "autoscaler", "driver.nvidia", "driver.amd")
_MADE: Final = "# Made by `python -m tests.packaging.made_files`"
#: What says that helm looks after an object.
_OF_HELM: Final = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def chart_files() -> Iterator[tuple[Path, str]]:
    """The files of the chart that are made, and what they say."""
    files = helm.CHART / "files"
    for name, part in COMPONENTS.items():
        if name not in ELSEWHERE:
            yield files / "rules" / f"{name}.yaml", _rules(part)
    for vendor, driver in DRIVERS.items():
        yield files / "rules" / f"driver-{vendor}.yaml", _rules(_of_driver(COMPONENTS["driver"], driver))
    policy = own_node_policy(COMPONENTS["driver"], namespace="NAMESPACE", account="ACCOUNT")[0]["spec"]
    yield files / "rules" / "own-node.yaml", f"{_MADE} from allotment.tools.permissions\n{to_yaml([policy])}"
    yield files / "alerts.yaml", alert_files()["allotment.rules.yaml"]
    for name, text in dashboard_files().items():
        yield files / "dashboards" / name, text
    yield files / "device-classes.yaml", f"{_MADE} from allotment.fleet.device_classes\n{to_yaml([_classes()])}"


def kustomize_files(program: str) -> Iterator[tuple[Path, str]]:
    """The files of kustomize that are made with helm."""
    folder = helm.ROOT / "deploy" / "kustomize"
    words = helm.settings(**{"metrics.tls.from": "secret", "metrics.tls.secretName": "allotment-metrics-tls"})
    pieces = [(piece, piece.replace(".", "-"), helm.settings()) for piece in PIECES]
    for piece, form in SIMULATED.items():
        # To try it: no certificate to make, no classes to look for.
        more = {f"components.{piece}.simulate": form, f"deviceClasses.{piece.partition('.')[2]}": True}
        more["metrics.enabled"] = False
        pieces.append((piece, f"{piece.replace('.', '-')}-simulated", helm.settings(**more)))
    for piece, name, more_words in pieces:
        # A policy names the driver's account with its namespace, which kustomize does not see.
        home = "allotment-drivers" if piece.startswith("driver") else "allotment"
        without = helm.settings(**{"networkPolicy.enabled": False})
        every = [*words, *helm.only(piece), *without, *more_words, "--skip-tests"]
        yield folder / "components" / name / f"{name}.yaml", _plain(helm.template(program, *every, namespace=home))
    policy = helm.template(program, *words, *helm.only(), "--skip-tests")
    yield folder / "base" / "network-policy.yaml", _plain(policy)


def _rules(part: ComponentPermissions) -> str:
    lines = [
        f"{_MADE} from allotment.tools.permissions",
        f"# {part.summary}",
        *_section("everywhere", part.cluster_wide),
    ]
    return "\n".join([*lines, *_section("atHome", part.in_namespace)]) + "\n"


def _section(name: str, rules: Iterable[PermissionRule]) -> Iterator[str]:
    rules = tuple(rules)
    if not rules:
        yield f"{name}: []"
        return
    yield f"{name}:"
    for rule in rules:
        yield f"  # {rule.why}"
        mark = "-"
        for field, words in rule_tree(rule).items():
            # A flow list with every word quoted: nothing in it can be read as anything else.
            yield f"  {mark} {field}: [{', '.join(_quoted(word) for word in words)}]"
            mark = " "


def _quoted(word: str) -> str:
    return f'"{word}"' if not word or ":" in word else word


def _of_driver(part: ComponentPermissions, driver: str) -> ComponentPermissions:
    """The rules of the one driver: what is limited to names of drivers is limited to its own."""
    mine = tuple(rule._replace(names=(driver,)) if driver in rule.names else rule for rule in part.cluster_wide)
    return part._replace(cluster_wide=mine, summary=f"{part.summary}: {driver}")


def _classes() -> Tree:
    found: Tree = {}
    for vendor in DRIVERS:
        found[vendor] = [
            {"name": tree["metadata"]["name"], "spec": tree["spec"]} for tree in map(to_tree, CLASSES[vendor])
        ]
    return found


def _plain(trees: Iterable[Tree]) -> str:
    kept = []
    for tree in trees:
        for metadata in (tree["metadata"], tree.get("spec", {}).get("template", {}).get("metadata", {})):
            for label in _OF_HELM:
                metadata.get("labels", {}).pop(label, None)
        kept.append(tree)
    return f"{_MADE} from the chart\n{yaml.safe_dump_all(kept, sort_keys=False, width=1000)}"


def write() -> None:
    """Write all of them."""
    _put(glossary.PAGE, glossary.page())
    for path, text in chart_files():
        _put(path, text)
    program = helm.program("helm")
    if program is None:
        raise SystemExit("helm is not there: `make clients` fetches it")
    for path, text in kustomize_files(program):
        _put(path, text)
    _put(values_page.PAGE, values_page.page())


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    write()
