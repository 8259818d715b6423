"""In which order the migration is rolled out, and taken back."""
