"""Object storage: revisions, change history and durability."""
