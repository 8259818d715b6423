from copy import deepcopy
from typing import Any

from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import created, manifest, updated, write


def job(**spec: Any) -> Tree:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return manifest(spec={"template": template, **spec})


def test_jobs_get_a_generated_selector() -> None:
    result, errors = created("jobs.batch", job(), write())
    assert errors == []
    assert result["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert result["spec"]["template"]["metadata"]["labels"]["job-name"] == "x"
    assert result["metadata"]["labels"] == result["spec"]["template"]["metadata"]["labels"]


def test_the_restart_policy_of_jobs_cannot_be_always() -> None:
    always = job()
    always["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert created("jobs.batch", always, write())[1] == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]


def test_generated_labels_of_a_job_cannot_be_set() -> None:
    labelled = job()
    labelled["spec"]["template"]["metadata"] = {"labels": {"app": "x", "job-name": "other"}}
    result, errors = created("jobs.batch", labelled, write())
    assert result["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "x"
    assert [error.partition(":")[0] for error in errors] == ["spec.template.metadata.labels[job-name]"]


def test_completions_of_indexed_jobs_can_change_with_parallelism() -> None:
    old, _ = created("jobs.batch", job(completionMode="Indexed", completions=2, parallelism=2), write())
    new = deepcopy(old)
    new["spec"]["completions"] = 3
    expected = "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    assert updated("jobs.batch", new, old, write())[1] == [expected]
    new["spec"]["parallelism"] = 3
    assert updated("jobs.batch", new, old, write())[1] == []


def test_scheduling_directives_of_a_suspended_job_are_mutable() -> None:
    old, _ = created("jobs.batch", job(suspend=True), write())
    new = deepcopy(old)
    new["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    new["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert updated("jobs.batch", new, old, write())[1] == []
    old["spec"]["suspend"] = False
    (error,) = updated("jobs.batch", new, old, write())[1]
    assert error.startswith('spec.template: Invalid value: {"labels":{')
    assert '"Spec":{"Volumes":null,' in error
    assert error.endswith("}}: field is immutable")
