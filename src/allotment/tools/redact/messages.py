"""What schedulers and controllers say, under the same pseudonyms: also of things that are gone by now.

A sentence stays readable: plain words, numbers, codes and whatever else the snapshot keeps stay. All other words are
taken for names, for nobody can tell what a deleted node or somebody's webhook was called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.engine.refusal import CODES
from allotment.tools.redact.pseudonyms import Pseudonyms

#: What a webhook or a policy says when it refuses may be anything.
_REFUSAL = re.compile(r"(denied (?:the )?request)\b.*", re.DOTALL)
#: Where names stand, whatever they look like: in quotation marks, in the braces of a taint, and after some words.
_NAMED = re.compile(
    r"""(\{[^{}]*\})|"[^"]*"|(?<!\w)'[^']*'|(?<=quota: )\S+|(?<=assigned )\S+ to \S+|(?<=on node )\S+"""
)
#: A label with its value, or words between slashes and colons.
_TOKEN = re.compile(r"(\w[\w./-]*)=(\w[\w.-]*(?<![.-]))|\w(?:[\w.:/@-]*\w)?")
_WORD = re.compile(r"\w(?:[\w.-]*\w)?")
#: A path in an object, a number or amount, words such as ReadWriteOncePod.
_NO_NAME = re.compile(
    r"to|exactly\.[a-z]\w+|device\.(?:attributes|capacity|driver)|metadata\.(?:annotations|labels|name|namespace)"
    r"|spec\.(?:affinity|containers|devices|initContainers|nodeSelector|resourceClaims|spec|template|tolerations)[a-zA-Z.]*"
    r"|status\.(?:allocation|devices|reservedFor)[a-zA-Z.]*|[0-9][0-9.]*[A-Za-z]{0,3}|(?:[A-Z][a-z]+){2,}"
)
_PLAIN = re.compile(r"[A-Za-z]+")
_COMPOUND = frozenset({"affinity/selector", "anti-affinity", "in-use", "non-existent", "node-allocatable", *CODES})


def words_of(text: str) -> Iterator[str]:
    """The words of a text that stays: in a sentence they stay, too."""
    for match in _TOKEN.finditer(text):
        yield match[0]
        yield from _WORD.findall(match[0])


def redact_message(names: Pseudonyms, text: str) -> str:
    """The sentence with every name in it replaced."""
    text = _REFUSAL.sub(r"\1", text)
    parts, end = [], 0
    for match in _NAMED.finditer(text):
        parts.append(_words(names, text[end : match.start()], named=False))
        parts.append(_words(names, match[0], named=True, sort="value" if match[1] else ""))
        end = match.end()
    return "".join((*parts, _words(names, text[end:], named=False)))


def _words(names: Pseudonyms, text: str, named: bool, sort: str = "") -> str:
    """``named``: plain words are names, too."""

    def token(match: re.Match[str]) -> str:
        if match[2]:
            return f"{_reference(names, match[1], named)}={_word(names, match[2], True, 'value')}"
        return _reference(names, match[0], named, sort)

    return _TOKEN.sub(token, text)


def _reference(names: Pseudonyms, text: str, named: bool, sort: str = "") -> str:
    """What is kept whole, an image, or words between slashes and colons, which are names."""
    if text in _COMPOUND or names.is_kept(text):
        return text
    if _WORD.fullmatch(text) is None and (image := names.known(text, "image")):
        return image
    return _WORD.sub(lambda match: _word(names, match[0], named or "/" in text, sort), text)


def _word(names: Pseudonyms, word: str, named: bool, sort: str) -> str:
    known = names.known(word, sort)
    if known or names.is_kept(word) or word in _COMPOUND or _NO_NAME.fullmatch(word):
        return known or word
    return word if not named and _PLAIN.fullmatch(word) else names.of("word", word)
