"""What users give, read: files, hardware, releases, times; told at once where it cannot be."""
