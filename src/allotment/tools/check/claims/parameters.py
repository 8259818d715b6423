"""Driver parameters in claims and classes, and the devices that they apply to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.selectors.device_types import DeviceCategory
from allotment.tools.check.selectors.reachability import categories_of_class
from allotment.tools.views import ConfigView, RequestView
from allotment.vocabulary import Vocabulary
from allotment.vocabulary.parameters import ParameterProblem, parameter_problems


class DriverParameters(NamedTuple):
    """Parameters for a known driver, and the requests that they apply to (none in a class)."""

    document: Document
    config: ConfigView
    values: dict[str, Any]
    vocabulary: Vocabulary
    requests: tuple[RequestView, ...]
    class_name: str = ""

    @property
    def path(self) -> Path:
        """The path of the parameters in the document."""
        return (*self.config.path, "opaque", "parameters")

    @property
    def names_requests(self) -> bool:
        """Whether the configuration lists its requests explicitly."""
        return bool(self.config.requests)

    def problems(self, bundle: Bundle) -> tuple[ParameterProblem, ...]:
        """The problems for which the driver rejects the parameters, including disabled feature gates."""
        gates = bundle.settings.driver_gates.get(self.config.driver, {})
        return parameter_problems(self.config.driver, self.values, gates, self.vocabulary.release)

    def device_categories(self, bundle: Bundle) -> tuple[DeviceCategory, ...] | None:
        """The categories of devices that the parameters may apply to; None if unknown."""
        classes = {request.class_name for request in self.requests} if self.requests else {self.class_name}
        categories: list[DeviceCategory] = []
        for name in sorted(classes):
            class_categories = categories_of_class(bundle, self.document, name)
            if class_categories is None:
                return None
            categories += class_categories
        return tuple(categories)


def driver_parameters(bundle: Bundle) -> Iterator[DriverParameters]:
    """All parameters for drivers with a known vocabulary."""
    for claim in bundle.claims:
        for config in claim.configs:
            vocab = vocabulary_of(bundle, config.driver)
            if vocab is not None and config.parameters is not None:
                requests = tuple(request for request in claim.requests if _applies_to(config, request))
                yield DriverParameters(claim.document, config, config.parameters, vocab, requests)
    for view in bundle.classes:
        for config in view.configs:
            vocab = vocabulary_of(bundle, config.driver)
            if vocab is not None and config.parameters is not None:
                yield DriverParameters(view.document, config, config.parameters, vocab, (), view.name)


def _applies_to(config: ConfigView, request: RequestView) -> bool:
    main = request.name.partition("/")[0]
    return not config.requests or request.name in config.requests or main in config.requests
