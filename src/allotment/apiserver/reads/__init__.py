"""What a reader asked for: selectors, pages, tables, partial objects."""
