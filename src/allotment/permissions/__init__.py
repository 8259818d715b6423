"""The minimal permissions of each component of Allotment, from which roles, charts and documentation are generated."""
