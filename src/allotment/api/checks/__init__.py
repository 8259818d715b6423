"""The check of files: its configuration, options and fixes, and the next step after it."""
