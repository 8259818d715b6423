"""Discovery and OpenAPI documents that describe the served API."""

from allotment.apiserver.api_description.endpoints import Documents

__all__ = ["Documents"]
