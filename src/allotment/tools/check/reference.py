"""Generates the rule reference, ``docs/reference/rules`` with one page per family, and the text of ``allot rule``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.tools.check.catalog import FAMILIES, all_rules, rules_by_code
from allotment.tools.check.rule import Rule

#: The folder of the pages, relative to the root of the project.
FOLDER: Final = "docs/reference/rules"
_FIXES: Final = {
    "": "none, because the correction depends on the author's intent.",
    "safe": "use `--fix`.",
    "unsafe": "use `--fix --unsafe-fixes`, because the fix guesses the intended meaning.",
    "safe or unsafe": "use `--fix`, or `--fix --unsafe-fixes` where the intended meaning must be guessed.",
}


def page_link(code: str) -> str:
    """The link to a rule's section, relative to the root of the project; empty for an unknown code."""
    rule = rules_by_code().get(code)
    return f"{FOLDER}/{rule.family}.md#{_anchor(rule)}" if rule is not None else ""


def _anchor(rule: Rule) -> str:
    return f"{rule.code.lower()}-{rule.name}"


def fix_availability(rule: Rule) -> str:
    """Whether and how the rule's findings can be fixed, as the end of a sentence."""
    return _FIXES[rule.fixable]


def headline(rule: Rule) -> str:
    """The rule's summary as a sentence without a full stop; a summary that starts with a field name keeps its case."""
    summary = rule.summary.removesuffix(".")
    first = summary.split(maxsplit=1)[0]
    return summary[:1].upper() + summary[1:] if first.isalpha() and first.islower() else summary


def pages() -> Mapping[str, str]:
    """The texts of the pages by their file names in ``FOLDER``."""
    index = [
        "# Rules of allot check",
        "",
        f"{len(all_rules())} rules in {len(FAMILIES)} families; `allot rule S102` describes one rule.",
        "",
        "An *error* means that the cluster rejects the object, or that the object can never work. A *warning* means",
        "that the object probably does not do what is intended. A *note* is for information, or reports something that",
        "cannot be decided from the input. A fix is *safe* if only one meaning is possible: `--fix` applies safe",
        "fixes, and `--fix --unsafe-fixes` applies all fixes.",
        "",
        "These pages are generated from the rules (`allotment.tools.check.rules.RULES`).",
    ]
    texts: dict[str, str] = {}
    for family, title, question in FAMILIES.values():
        rules = [rule for rule in all_rules() if rule.family == family]
        index += ["", f"## [{title}]({family}.md)", "", question]
        index += ["", "| code | name | level | fix | |", "|---|---|---|---|---|"] if rules else []
        index += (
            f"| [{rule.code}]({family}.md#{_anchor(rule)}) | {rule.name} | {rule.level} | {rule.fixable or '–'}"
            f" | {_cell(headline(rule))} |"
            for rule in rules
        )
        texts[f"{family}.md"] = "\n".join([f"# {title}", "", question, "", *(_section(rule) for rule in rules)])
    return {"index.md": "\n".join(index) + "\n", **texts}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _section(rule: Rule) -> str:
    return f"## {rule.code} {rule.name}\n\n{markdown(rule)}\n"


def markdown(rule: Rule) -> str:
    """The full description of a rule as Markdown."""
    parts = [f"{headline(rule)}. *({rule.level})*", rule.why]
    parts += [f"Instead of\n\n{_fenced(rule.bad)}\n\nwrite\n\n{_fenced(rule.good)}"]
    parts += [f"Fix: {fix_availability(rule)}"]
    parts += [f"See: {rule.see}"] if rule.see else []
    return "\n\n".join(parts)


def _fenced(text: str) -> str:
    kind = "json" if text.lstrip().startswith("{") else "yaml"
    return f"```{kind}\n{text.rstrip()}\n```"
