"""Read requests: selectors, paging, watches, tables and other representations."""
