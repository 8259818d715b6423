"""What the API says of itself: discovery and OpenAPI."""

from allotment.apiserver.api_description.endpoints import Documents

__all__ = ["Documents"]
