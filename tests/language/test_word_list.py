"""The word list: each entry finds its example, and ordinary English is accepted."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from tests.language.word_list import ROOT, Avoid, Category, Searcher, name_parts, read, searcher

WORDS = read()
#: Sentences as other projects write them, with words that are wrong in this project's special senses only.
ORDINARY = (
    "The lock is held by the writer until the transaction commits.",
    "A word of memory is read at each turn of the loop.",
    "If the file is found in the cache, it takes the place of the download.",
    "The standing order of evaluation is given in the table below.",
    "GPU stands for graphics processing unit.",
    "A mock can stand in for the client in tests.",
    "The scheduler places pods on nodes and turns off the old controller.",
    "This tells Kubernetes to keep the last three revisions.",
    "Use labels to tell the two deployments apart.",
    "The user is asked the user name only once, so no answer can be told apart from an error.",
    "All requests are sent at once and collected in the order of completion.",
    "So many clients connect that the server rejects some of them.",
    "Data is encrypted at rest.",
    "The result is the floor of the quotient; floor division is exact.",
    "The operation takes place on the server side, in the course of the request.",
    "In other words, the value is a mapping of names to sizes.",
    "Call it as often as needed, as long as the connection is open.",
    "Wait for the pods to become ready; pods wait for the volume to be attached.",
    "There are no parts of the page that need a login.",
    "The source of truth is the API server.",
    "If you wish to contribute, read the guide first.",
    "Whether or not there are replicas, the service has an address.",
    "What is dynamic resource allocation?",
    "The function `mend` and [this page](told.md) keep their names.",
    "See https://example.com/told/asked and the options --ask-for and `asked`.",
)


@pytest.mark.parametrize("avoid", [entry for entry in WORDS.avoid if entry.bad], ids=lambda entry: entry.word)
def test_each_entry_finds_its_bad_example_and_accepts_the_good_one(avoid: Avoid) -> None:
    category: Category = avoid.only[0] if avoid.only else "message"
    assert avoid in [match.avoid for match in searcher().in_prose(avoid.bad, category)]
    assert not list(searcher().in_prose(avoid.good, "docs"))


@pytest.mark.parametrize("avoid", WORDS.avoid, ids=lambda entry: entry.word)
def test_each_entry_is_complete(avoid: Avoid) -> None:
    assert avoid.prose or avoid.names or avoid.modules or avoid.classes
    assert bool(avoid.bad) == bool(avoid.good)
    assert not avoid.prose or avoid.bad or avoid.only, "prose needs an example"
    for name in avoid.names:
        found = searcher().in_name(name, "variable")
        assert found is not None, name
    for name in avoid.modules:
        assert searcher().in_name(name, "module") is not None
    for name in avoid.classes:
        assert searcher().in_name(f"_{name}", "class") is not None
    for pattern in (*avoid.prose, *avoid.unless):
        assert pattern == pattern.lower() or "\\" in pattern, "texts are searched in lower case"
        assert re.compile(pattern).groups == 0, "a group is written (?:…)"


@pytest.mark.parametrize("sentence", ORDINARY)
def test_ordinary_english_is_accepted(sentence: str) -> None:
    categories: tuple[Category, ...] = ("help", "message", "deploy", "docs", "comment")
    for category in categories:
        found = [sentence[match.start : match.end] for match in searcher().in_prose(sentence, category)]
        assert not found, category


def test_the_list_itself_is_plain() -> None:
    for text in (
        *(term.meaning for term in WORDS.term),
        *(text for entry in WORDS.avoid for text in (entry.use, entry.note, entry.good)),
    ):
        assert not [text[match.start : match.end] for match in searcher().in_prose(text, "docs")], text


def test_entries_are_unique() -> None:
    for names in (
        [term.term for term in WORDS.term],
        [entry.word for entry in WORDS.avoid],
        [name for entry in WORDS.avoid for name in entry.names],
        [name for entry in WORDS.avoid for name in entry.modules],
        [name for entry in WORDS.avoid for name in entry.classes],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_a_term_is_one_sentence_with_links_that_exist() -> None:
    for term in WORDS.term:
        assert term.meaning.endswith("."), term.term
        assert not re.search(r"[.] [A-Z]", term.meaning), f"{term.term}: more than one sentence"
        assert not term.link.startswith(("/", "http:")), term.term
        assert not term.page or (ROOT / "docs" / term.page).is_file(), term.term


def test_quotes_from_other_projects_are_accepted() -> None:
    without_quotes = Searcher(msgspec.structs.replace(WORDS, quote=()))
    for quote in WORDS.quote:
        assert list(without_quotes.in_prose(quote.text, "message")), "needs no entry"
        assert not list(searcher().in_prose(f"x: {quote.text}", "message"))


def test_identifiers_are_split_into_words() -> None:
    assert name_parts("_is_going_by2") == ["is", "going", "by"]
    assert name_parts("DeviceAsked") == ["device", "asked"]
    assert searcher().in_name("time_going_by", "parameter") is not None
    assert searcher().in_name("ongoing_bytes", "parameter") is None
    assert searcher().in_name("found", "variable") is None, "only the name of a module or a class must be a noun"
    assert searcher().in_name("Found", "class") is not None
