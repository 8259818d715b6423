"""Before and after: where a device plugin puts the pods, where DRA puts them, and whether that is the same."""
