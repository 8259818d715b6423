"""The reader does a step, in this terminal or another one, rightly or wrongly."""

from __future__ import annotations

import pytest

from allotment.cli.tutorial.events import Entered
from allotment.cli.tutorial.folder import packaged
from allotment.cli.tutorial.session import Session
from tests.unit.cli.tutorial.conftest import AfterHint, Tutorial

CLAIM = "allot claim --memory 80GB --for pod/trainer -f trainer.yaml --in-place"
APPLY = "allot apply -f trainer.yaml"


def flat(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def test_a_wrong_answer_is_followed_by_the_command_that_shows_the_right_one(tutorial: Tutorial) -> None:
    out = tutorial.read("look", "t4", "allot free", "H100")
    assert "Not yet: t4 is not right. allot free shows it; Enter runs it." in out
    assert "11 of 11 devices are free, on 3 nodes." in out
    assert "Done: h100, because its driver publishes two H100" in out
    assert tutorial.folder.progress.done == ["look"]


def test_enter_runs_the_command_of_a_question_and_answers_it(tutorial: Tutorial) -> None:
    out = tutorial.read("free", "")
    assert "> allot free" in out
    assert "Done: 7, because" in out


def test_commands_at_the_prompt_do_the_step(tutorial: Tutorial) -> None:
    out = tutorial.read("request", CLAIM, APPLY)
    assert "Done: Pod trainer runs on node h100 with gpu-0 (NVIDIA H100 80GB HBM3)" in out


def test_objects_that_another_terminal_creates_do_the_step(tutorial: Tutorial) -> None:
    text = packaged("finetune.yaml")
    out = tutorial.read("pending", lambda session: session.lab.apply(text))
    assert "Done: Pod finetune is pending" in out


def test_a_pod_without_a_claim_is_not_enough_and_enter_begins_again(tutorial: Tutorial) -> None:
    out = flat(tutorial.read("request", APPLY, AfterHint("")))
    assert "Not yet: Pod trainer runs without a device, because no container of it has a claim." in out
    assert "This step begins again: the objects of trainer.yaml are deleted." in out
    assert "Done: Pod trainer runs on node h100" in out


def test_a_smaller_gpu_is_not_enough(tutorial: Tutorial) -> None:
    claim = CLAIM.replace("--memory 80GB", "--model T4")
    out = flat(tutorial.read("request", claim, APPLY))
    assert "Not yet: Pod trainer runs with gpu-0 (Tesla T4), but a GPU with 80 GB is required." in out
    assert "Done" not in out
    assert tutorial.folder.progress.done == []


def test_a_pending_pod_is_explained_as_by_allot_explain(tutorial: Tutorial) -> None:
    out = flat(tutorial.read("request", CLAIM.replace("80GB", "141GB"), APPLY))
    assert "Not yet: pod trainer is pending. allot explain pod/trainer shows why:" in out
    assert "Pod default/trainer does not fit" in out


def test_a_pod_in_another_namespace_is_found(tutorial: Tutorial) -> None:
    def apply(session: Session) -> None:
        session.lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        session.lab.apply(packaged("trainer.yaml"), namespace="other")

    out = flat(tutorial.read("request", apply))
    tutorial.lab.delete("pod", "trainer", namespace="other")
    assert "Not yet: Pod trainer is in namespace other. The tutorial uses namespace default." in out


def test_a_template_gives_each_pod_a_gpu_of_its_own(tutorial: Tutorial) -> None:
    out = flat(
        tutorial.read(
            "share",
            "allot claim --model T4 --for deploy/jupyter -f jupyter.yaml --in-place",
            "allot apply -f jupyter.yaml",
            AfterHint(""),
        )
    )
    assert "Not yet: The pods have 2 devices: with a template, each pod gets a claim of its own." in out
    assert "Done: 2 pods share gpu-" in out


def test_an_edited_manifest_is_kept_when_the_step_is_done_for_the_reader(tutorial: Tutorial) -> None:
    def edit(session: Session) -> None:
        with (session.folder.path / "trainer.yaml").open("a") as file:
            file.write("# mine\n")
        session.events.put(Entered(""))

    out = tutorial.read("request", edit)
    assert "trainer.yaml is written again; your version is trainer.yaml.old." in out
    assert (tutorial.folder.path / "trainer.yaml.old").read_text().endswith("# mine\n")
    assert "Done: Pod trainer runs" in out


def test_the_explained_pod_is_fixed_by_the_first_change_of_allot_explain(tutorial: Tutorial) -> None:
    tutorial.lab.apply(packaged("finetune.yaml"))
    tutorial.folder.add("finetune.yaml")
    out = tutorial.read("explain", "s", "")
    assert out.count("+++ finetune.yaml") == 2, "as the solution, and when it is done"
    assert out.count("Pod default/finetune does not fit") == 1, "not reported as a mistake of the reader"
    assert "Done: Pod finetune runs on node h100" in out


def test_the_solution_of_a_question_is_its_answer(tutorial: Tutorial) -> None:
    out = tutorial.read("look", "s", "q")
    assert "h100, because its driver publishes two H100" in out
    assert tutorial.folder.progress.done == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("what", "expected Enter, s, q or a command of allot, found 'what'"),
        ("allot up", "run this in another terminal: allot up"),
        ("allot get 'pods", "allot get 'pods: no closing quotation"),
        ("cat none.yaml", "none.yaml: no such file or directory"),
        ("allot apply", "the following arguments are required: -f"),
    ],
)
def test_other_lines_are_answered(tutorial: Tutorial, line: str, words: str) -> None:
    out = tutorial.read("partition", line, "q")
    assert words in out
    assert "Done" not in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "finetune.yaml: no such file or directory"),
        ("kind: [", "allot explain pod/finetune proposes no change of finetune.yaml"),
        (
            packaged("finetune.yaml").replace("selectors:", "selector:"),
            "finetune.yaml cannot be changed: spec.spec.devices.requests[0].exactly.selectors not found",
        ),
    ],
)
def test_the_solution_for_a_broken_or_missing_manifest_is_an_answer(
    tutorial: Tutorial, text: str | None, words: str
) -> None:
    tutorial.lab.apply(packaged("finetune.yaml"))
    tutorial.folder.add("finetune.yaml")
    path = tutorial.folder.path / "finetune.yaml"

    def edit(session: Session) -> None:
        path.unlink() if text is None else path.write_text(text)
        session.events.put(Entered("s"))

    assert words in flat(tutorial.read("explain", edit, "q"))


def test_enter_creates_an_object_that_the_reader_deleted(tutorial: Tutorial) -> None:
    tutorial.lab.apply(packaged("finetune.yaml"))
    tutorial.folder.add("finetune.yaml")

    def delete(session: Session) -> None:
        session.lab.delete("pod", "finetune")
        session.events.put(Entered(""))

    out = tutorial.read("explain", delete)
    assert "This step begins again" in out
    assert "Done: Pod finetune runs on node h100" in out


@pytest.mark.parametrize("text", ["kind: [", "apiVersion: v1\nkind: Podd\nmetadata: {name: trainer}\n", None])
def test_a_broken_or_missing_manifest_is_written_again(tutorial: Tutorial, text: str | None) -> None:
    def edit(session: Session) -> None:
        path = session.folder.path / "trainer.yaml"
        path.unlink() if text is None else path.write_text(text)
        session.events.put(Entered(""))

    assert "Done: Pod trainer runs" in tutorial.read("request", edit)
