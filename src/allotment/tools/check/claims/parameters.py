"""Parameters for drivers in claims and classes, and whose devices they can be for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.selectors.device_types import Sort
from allotment.tools.check.selectors.reachability import sorts_of_class
from allotment.tools.views import ConfigView, RequestView
from allotment.vocabulary import Vocabulary
from allotment.vocabulary.parameters import Problem, parameters_of


class Given(NamedTuple):
    """Parameters for a known driver: where they stand, and the requests that they are for (none in a class).

    ``named``: the requests are those that the author named, not just all.
    """

    document: Document
    config: ConfigView
    tree: dict[str, Any]
    words: Vocabulary
    requests: tuple[RequestView, ...]
    class_name: str = ""

    @property
    def path(self) -> Path:
        """Where the parameters stand."""
        return (*self.config.path, "opaque", "parameters")

    @property
    def named(self) -> bool:
        """Whether the author named the requests that they are for."""
        return bool(self.config.requests)

    def problems(self, bundle: Bundle) -> tuple[Problem, ...]:
        """What the driver will find wrong with them, feature gates included."""
        gates = bundle.settings.driver_gates.get(self.config.driver, {})
        return parameters_of(self.config.driver, self.tree, gates, self.words.release)

    def sorts(self, bundle: Bundle) -> tuple[Sort, ...] | None:
        """The sorts of device that they can be for; None where nobody can tell."""
        classes = {request.class_name for request in self.requests} if self.requests else {self.class_name}
        found: list[Sort] = []
        for name in sorted(classes):
            sorts = sorts_of_class(bundle, self.document, name)
            if sorts is None:
                return None
            found += sorts
        return tuple(found)


def given_parameters(bundle: Bundle) -> Iterator[Given]:
    """All parameters for drivers whose words are known."""
    for claim in bundle.claims:
        for config in claim.configs:
            words = words_of(bundle, config.driver)
            if words is not None and config.parameters is not None:
                meant = tuple(one for one in claim.requests if _is_for(config, one))
                yield Given(claim.document, config, config.parameters, words, meant)
    for view in bundle.classes:
        for config in view.configs:
            words = words_of(bundle, config.driver)
            if words is not None and config.parameters is not None:
                yield Given(view.document, config, config.parameters, words, (), view.name)


def _is_for(config: ConfigView, request: RequestView) -> bool:
    main = request.name.partition("/")[0]
    return not config.requests or request.name in config.requests or main in config.requests
