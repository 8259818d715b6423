"""Authentication, authorization (RBAC) and access reviews of the API server."""
