"""Programs get the answers of the command line: each scenario by ``allot explain``, over HTTP, and by the MCP tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from allotment import Cluster, InputError
from allotment.cli.main import main
from allotment.queries.brief import BRIEF
from allotment.watched.cluster import view_of
from allotment.watched.view import ClusterView
from tests.corpus.test_agreement import NAMES
from tests.corpus.test_corpus import HERE, head
from tests.program_server import ProgramServer, Tools, tools

pytestmark = pytest.mark.usefixtures("short_searches")

#: A search until its limit is long, so one scenario of it has to do.
_SCENARIOS = [name for name in NAMES if "search-given-up" not in head(name)["code"] or name == "search-given-up"]
#: Gates without which the command line rejects those that scenarios name.
_REQUIRED = {"DRAWorkloadResourceClaims": ("GenericWorkload",)}


@pytest.fixture(scope="module")
def server() -> Iterator[ProgramServer]:
    with ProgramServer(view_of(Cluster())) as found:
        yield found


@pytest.fixture(scope="module")
def client() -> Iterator[Tools]:
    with tools(view_of(Cluster())) as found:
        yield found


def options(name: str) -> tuple[str, list[str]]:
    """The release and the feature gates of a scenario."""
    expected = head(name)
    gates = expected.get("features", "").removeprefix("gates=")
    on = [gate for gate in gates.split(",") if gate]
    required = [other for gate in on for other in _REQUIRED.get(gate, ())]
    return expected.get("kube", "1.36"), [f"{gate}=true" for gate in (*required, *on)]


def printed(words: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON that `allot explain` prints with the release of a scenario."""
    kube, gates = options(name)
    chosen = ["--kube-version", kube, *(word for gate in gates for word in ("--feature-gates", gate))]
    code = main(["explain", *words, *chosen, "-o", "json"])
    data = json.loads(capsys.readouterr().out)
    assert code in (0, 1, 2), data
    return data


def view(name: str) -> ClusterView:
    """The scenario as a snapshot, with its release."""
    kube, gates = options(name)
    return view_of(Cluster.snapshot(HERE / f"{name}.yaml", kube=kube, gates=gates))


def causes(answer: Any) -> list[tuple[str, str, str]]:
    """The code and the first remedy of each refusal."""
    headlines = [(each["name"], each["reasons"]["headline"]) for each in answer["answers"] if "reasons" in each]
    return [(name, headline["code"], first_of(headline.get("changes", ()))) for name, headline in headlines]


def first_of(changes: Any) -> str:
    return str(changes[0]["text"]) if changes else ""


@pytest.mark.parametrize("name", _SCENARIOS)
def test_objects_of_a_cluster(
    name: str, server: ProgramServer, client: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(HERE / f"{name}.yaml")
    command = printed(["--cluster", file], name, capsys)
    server.view = client.view = view(name)
    reply = server.post("why")
    if "problems" in command:  # nothing is pending, or a resource is unknown
        assert reply.data.get("answers", []) == [], command
        return
    assert reply.status == 200
    # The kinds that a snapshot lacks: the author of a command knows the file, a client of a server may not.
    command["notes"] = [*command["notes"], *(note for note in server.view.inputs.notes if "contains no" in note)]
    assert reply.data == command
    assert client.answer("why", detail=True) == command
    shown = client.call("why")
    assert not shown.is_error
    check_brief(client.answer("why"), command)


@pytest.mark.parametrize("name", [name for name in _SCENARIOS if "/" not in name])
def test_manifests(name: str, server: ProgramServer, client: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE / f"{name}.yaml"
    kube, gates = options(name)
    command = printed(["-f", str(path)], name, capsys)
    server.view = client.view = view_of(Cluster(kube=kube, gates=gates))
    text = path.read_text()
    reply = server.post("why", manifests=text)
    if "problems" in command:
        assert reply.status in (400, 422)
        problem = client.answer("why", manifests=text)
        assert problem == {key: value for key, value in reply.data.items() if key != "instance"}
        sentences = [each["message"] for each in reply.data.get("errors", ())] or [reply.data["detail"]]
        assert sentences == [each["message"] for each in command["problems"]]
        return
    assert reply.status == 200
    assert causes(reply.data) == causes(command)
    check_brief(client.answer("why", manifests=text), command)


def check_brief(short: Any, command: Any) -> None:
    """The short answer is short, and names the codes and all of the first remedy of what it shows."""
    assert len(json.dumps(short, ensure_ascii=False, separators=(",", ":")).encode()) <= BRIEF
    assert short["fits"] is command["fits"]
    by_name = {each["name"]: each for each in command["answers"]}
    for group in short["pending"]:
        for name in group["names"]:
            headline = by_name[name]["reasons"]["headline"]
            assert group["code"] == headline["code"]
            shown = [text.rstrip("…") for text in group["remedies"]]
            whole = [change["text"] for change in headline.get("changes", ())]
            assert all(text.startswith(part) for text, part in zip(whole, shown, strict=True)), (whole, shown)
    if not command["fits"]:
        assert sum(group["count"] for group in short["pending"]) + short.get("omitted", {}).get("pending", 0) > 0


def test_a_named_pod_has_the_answer_of_the_command(
    server: ProgramServer, client: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(HERE / "devices-in-use.yaml")
    command = printed(["pod/trainer", "--cluster", file], "devices-in-use", capsys)
    server.view = client.view = view("devices-in-use")
    assert server.get("why", name="pod/trainer").data == command
    assert client.answer("why", name="pod/trainer", detail=True) == command


def test_an_unknown_name_has_the_message_of_the_command(
    server: ProgramServer, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(HERE / "devices-in-use.yaml")
    (expected,) = printed(["trainr", "--cluster", file], "devices-in-use", capsys)["problems"]
    server.view = view("devices-in-use")
    reply = server.get("why", name="trainr")
    assert (reply.status, reply.data["detail"], reply.data["hint"]) == (400, expected["message"], expected["hint"])


def test_scenarios_are_not_empty() -> None:
    assert len(_SCENARIOS) > 150
    with pytest.raises(InputError):
        view_of(Cluster.snapshot(HERE / "missing.yaml"))
