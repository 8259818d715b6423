"""The steps of the tutorial, in order, and the machines of its lab."""

from __future__ import annotations

from typing import Final

from allotment.cli.tutorial.checks import (
    MEMORY_80_GB,
    DeviceRequirement,
    any_gpu,
    is_pending,
    nothing_left,
    of_80_gb,
    of_profile,
    runs,
    share_one_device,
)
from allotment.cli.tutorial.step import Command, FirstRemedy, Question, Step

#: Cards of 80 GB, a card that is divided into MIG devices, and small cards.
FLEET: Final = ("h100=2xh100", "mig=a100-40gb/static-mig=1g.5gb:7", "t4=2xt4")
_REPLICAS: Final = 2

STEPS: Final = (
    Step(
        name="look",
        title="Which GPUs does the cluster have?",
        text=(
            "The driver of a node publishes its GPUs in ResourceSlices. allot free lists them, with those that are "
            "in use."
        ),
        commands=(Command("allot free"),),
        question=Question(
            "Which node has GPUs of 80 GB?",
            lambda objects: objects.node_with_memory(MEMORY_80_GB),
            "its driver publishes two H100 GPUs with 81559Mi of memory",
        ),
    ),
    Step(
        name="request",
        title="My pod needs a GPU with 80 GB",
        text=(
            "A pod gets a GPU through a claim: a request for devices, by their properties instead of by a node. "
            "trainer.yaml has a pod without one. allot claim adds the claim to the file, with a comment on each line. "
            "Then apply the file."
        ),
        files=("trainer.yaml",),
        commands=(
            Command("allot claim --memory 80GB --for pod/trainer -f trainer.yaml --in-place"),
            Command("cat trainer.yaml"),
            Command("allot apply -f trainer.yaml"),
        ),
        check=runs(
            "trainer",
            DeviceRequirement("a GPU with 80 GB", of_80_gb),
            "only this node has a free GPU with the requested memory, so the scheduler allocated one to the claim of "
            "the pod and placed the pod there",
        ),
    ),
    Step(
        name="share",
        title="Two pods share one GPU",
        text=(
            "A ResourceClaimTemplate makes a new claim, with devices of its own, for each pod. Pods that name the "
            "same ResourceClaim share its devices. --share writes such a claim for the two pods of jupyter.yaml."
        ),
        files=("jupyter.yaml",),
        commands=(
            Command("allot claim --share --model T4 --for deploy/jupyter -f jupyter.yaml --in-place"),
            Command("allot apply -f jupyter.yaml"),
        ),
        check=share_one_device("jupyter", _REPLICAS, "both name the same ResourceClaim, which is allocated once"),
    ),
    Step(
        name="partition",
        title="A part of a GPU: a MIG device",
        text=(
            "The memory of a shared GPU is not protected: one pod can use all of it. MIG divides a GPU in hardware "
            "into devices with memory and processors of their own. A claim requests one by its profile."
        ),
        files=("classifier.yaml",),
        commands=(
            Command("allot claim --mig 1g.5gb --for pod/classifier -f classifier.yaml --in-place"),
            Command("allot apply -f classifier.yaml"),
        ),
        check=runs(
            "classifier",
            DeviceRequirement("a MIG device 1g.5gb", of_profile("1g.5gb")),
            "the A100 of this node is divided into seven of them, and six are left for others",
        ),
    ),
    Step(
        name="pending",
        title="A pod that stays pending",
        text="finetune.yaml requests a GPU with 80Gi of memory. One of the two H100 GPUs is free. Apply the file.",
        files=("finetune.yaml",),
        commands=(Command("allot apply -f finetune.yaml"),),
        check=is_pending(
            "finetune",
            "the scheduler found no device that meets its request, and retries when devices or claims change",
        ),
    ),
    Step(
        name="explain",
        title="Why is it pending, and what helps?",
        text=(
            "allot explain shows how many devices are left after each condition, and a change after which the pod fits."
        ),
        task=(
            "Make this change in finetune.yaml, with your editor. Pods and claims cannot be changed in the cluster, so "
            "delete the objects of the file and apply it again:"
        ),
        files=("finetune.yaml",),
        applied=True,
        commands=(Command("allot explain pod/finetune", code=1),),
        edit=FirstRemedy("finetune", "finetune.yaml"),
        afterwards=(Command("allot delete -f finetune.yaml"), Command("allot apply -f finetune.yaml")),
        check=runs(
            "finetune",
            DeviceRequirement("a GPU with 80 GB", of_80_gb),
            "a card of 80 GB has 80·10⁹ bytes or a little more, and an H100 publishes 81559Mi, which is less than 80Gi",
        ),
    ),
    Step(
        name="repair",
        title="A manifest with mistakes",
        text=(
            "batch.yaml has three mistakes, and the API server would reject it. allot check finds them before that; "
            "--fix repairs those for which only one meaning is possible."
        ),
        files=("batch.yaml",),
        commands=(
            Command("allot check batch.yaml", code=1),
            Command("allot check batch.yaml --fix"),
            Command("allot apply -f batch.yaml"),
        ),
        check=runs(
            "batch",
            DeviceRequirement("a GPU", any_gpu),
            "the repaired claim requests any GPU with 8Gi or more, and this one was free",
        ),
    ),
    Step(
        name="free",
        title="What is free now?",
        text="allot free also shows which claim and which pod has each device.",
        commands=(Command("allot free"),),
        question=Question(
            "How many devices of node mig are free?",
            lambda objects: str(objects.free("mig")),
            "the A100 has seven MIG devices, and the claim of pod classifier has one of them",
        ),
    ),
    Step(
        name="clean-up",
        title="Clean up",
        text=("A device is free again when its claim is deleted. This deletes all objects in the files of the folder."),
        commands=(Command("allot delete -f . --ignore-not-found"),),
        check=nothing_left,
    ),
)
