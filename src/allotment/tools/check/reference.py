"""The reference of the rules, made from them: ``docs/rules/``, one page per family, and what ``allot rule`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.tools.check.catalog import FAMILIES, by_code, catalogue
from allotment.tools.check.rule import Rule

#: Where the pages are, from the root of the project.
FOLDER: Final = "docs/rules"
_FIXES: Final = {
    "": "none: only the author can know.",
    "safe": "with `--fix`.",
    "unsafe": "with `--fix --unsafe`, because it guesses what is meant.",
    "safe or unsafe": "with `--fix`; where the meaning must be guessed, with `--fix --unsafe`.",
}


def address(code: str) -> str:
    """The page of a rule, from the root of the project; empty for a code that there is not."""
    rule = by_code().get(code)
    return f"{FOLDER}/{rule.family}.md#{_anchor(rule)}" if rule is not None else ""


def _anchor(rule: Rule) -> str:
    return f"{rule.code.lower()}-{rule.name}"


def fixes(rule: Rule) -> str:
    """Whether and how it can be mended, as the end of a sentence."""
    return _FIXES[rule.fixable]


def headline(rule: Rule) -> str:
    """What a rule is about, as a sentence without its full stop; a field's name keeps its spelling."""
    summary = rule.summary.removesuffix(".")
    first = summary.split(maxsplit=1)[0]
    return summary[:1].upper() + summary[1:] if first.isalpha() and first.islower() else summary


def pages() -> Mapping[str, str]:
    """File name in ``FOLDER`` -> text."""
    index = [
        "# Rules of allot check",
        "",
        f"{len(catalogue())} rules in {len(FAMILIES)} families; `allot rule S102` prints one of them.",
        "",
        "An *error* is what a cluster refuses, or what can never do what it is for; a *warning* is what will hardly do",
        "what is meant; a *note* is worth knowing, or cannot be told from what was given. A fix is *safe* when the",
        "author can have meant nothing else; `--fix` makes those, `--fix --unsafe` the others, too.",
        "",
        "These pages are generated from the rules themselves (`allotment.tools.check.rules.RULES`).",
    ]
    found: dict[str, str] = {}
    for family, title, question in FAMILIES.values():
        rules = [rule for rule in catalogue() if rule.family == family]
        index += ["", f"## [{title}]({family}.md)", "", question]
        index += ["", "| code | name | level | fix | |", "|---|---|---|---|---|"] if rules else []
        index += (
            f"| [{rule.code}]({family}.md#{_anchor(rule)}) | {rule.name} | {rule.level} | {rule.fixable or '–'}"
            f" | {_cell(headline(rule))} |"
            for rule in rules
        )
        found[f"{family}.md"] = "\n".join([f"# {title}", "", question, "", *(_section(rule) for rule in rules)])
    return {"README.md": "\n".join(index) + "\n", **found}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _section(rule: Rule) -> str:
    return f"## {rule.code} {rule.name}\n\n{markdown(rule)}\n"


def markdown(rule: Rule) -> str:
    """A rule in full, as Markdown."""
    parts = [f"{headline(rule)}. *({rule.level})*", rule.why]
    parts += [f"Instead of\n\n{_fenced(rule.bad)}\n\nwrite\n\n{_fenced(rule.good)}"]
    parts += [f"Fix: {fixes(rule)}"]
    parts += [f"See: {rule.see}"] if rule.see else []
    return "\n\n".join(parts)


def _fenced(text: str) -> str:
    kind = "json" if text.lstrip().startswith("{") else "yaml"
    return f"```{kind}\n{text.rstrip()}\n```"
