"""What the API says of itself: discovery and OpenAPI."""
