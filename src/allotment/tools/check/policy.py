"""From a bundle to what is told of it: the rules that are meant, less what files and comments leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.catalog import table
from allotment.tools.check.run import check
from allotment.tools.check.selection import Choice, means
from allotment.tools.check.suppressions import Silenced, silence

#: Rules that find something only where devices are given.
_NEED_DEVICES: Final = "proof"


def _nothing(file: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What is to be told: which rules, and by ``ignored_in`` which words a file is excused from."""

    choice: Choice = field(default_factory=Choice)
    ignored_in: Callable[[str], tuple[str, ...]] = _nothing

    @property
    def tries(self) -> bool:
        """Whether objects are tried on the devices that are given."""
        return any(rule.family == _NEED_DEVICES and self.choice.has(rule.code) for rule in table())

    def judge(self, bundle: Bundle, sources: Mapping[str, str], *, mending: bool = False) -> Silenced:
        """Everything that is to be told of a bundle. ``sources`` are the texts of its files.

        For ``mending`` only rules that offer fixes are asked: what is tried on devices takes longest and mends nothing.
        """
        idle = {
            rule.code
            for rule in table()
            if (mending and not rule.fixable) or (rule.family == _NEED_DEVICES and bundle.world is None)
        }
        excused = {file: self.ignored_in(file) for file in sources}

        def ran(code: str, file: str) -> bool:
            return self.choice.has(code) and code not in idle and not any(means(w, code) for w in excused.get(file, ()))

        found = [
            finding
            for finding in check(bundle, [rule for rule in self.choice.rules(table()) if rule.code not in idle])
            if ran(finding.code, finding.where.file)
        ]

        return silence(found, sources, ran)
