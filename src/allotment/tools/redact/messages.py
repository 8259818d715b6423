"""Redacts messages of schedulers and controllers, with the pseudonyms of the objects that they name.

Plain words, numbers, codes and texts that the snapshot contains are kept. All other words are treated as names, because
a message may name objects that no longer exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.engine.refusal import CODES
from allotment.tools.redact.pseudonyms import Pseudonyms

#: The free text of a webhook or admission policy that denies a request.
_REFUSAL = re.compile(r"(denied (?:the )?request)\b.*", re.DOTALL)
#: Positions of names: in quotation marks, in the braces of a taint, and after certain words.
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
    """The words of a text that is kept; they are also kept in messages."""
    for match in _TOKEN.finditer(text):
        yield match[0]
        yield from _WORD.findall(match[0])


def redact_message(names: Pseudonyms, text: str) -> str:
    """The message with all names replaced by pseudonyms."""
    text = _REFUSAL.sub(r"\1", text)
    parts, end = [], 0
    for match in _NAMED.finditer(text):
        parts.append(_words(names, text[end : match.start()], named=False))
        parts.append(_words(names, match[0], named=True, kind="value" if match[1] else ""))
        end = match.end()
    return "".join((*parts, _words(names, text[end:], named=False)))


def _words(names: Pseudonyms, text: str, named: bool, kind: str = "") -> str:
    """The text with names replaced; ``named``: plain words are names, too."""

    def token(match: re.Match[str]) -> str:
        if match[2]:
            return f"{_reference(names, match[1], named)}={_word(names, match[2], True, 'value')}"
        return _reference(names, match[0], named, kind)

    return _TOKEN.sub(token, text)


def _reference(names: Pseudonyms, text: str, named: bool, kind: str = "") -> str:
    """A token with names replaced: a kept text, an image, or words separated by slashes and colons."""
    if text in _COMPOUND or names.is_kept(text):
        return text
    if _WORD.fullmatch(text) is None and (image := names.known(text, "image")):
        return image
    return _WORD.sub(lambda match: _word(names, match[0], named or "/" in text, kind), text)


def _word(names: Pseudonyms, word: str, named: bool, kind: str) -> str:
    known = names.known(word, kind)
    if known or names.is_kept(word) or word in _COMPOUND or _NO_NAME.fullmatch(word):
        return known or word
    return word if not named and _PLAIN.fullmatch(word) else names.of("word", word)
