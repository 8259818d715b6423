"""What the API says of itself: discovery and OpenAPI."""

from allotment.apiserver.documents.serving import Documents

__all__ = ["Documents"]
