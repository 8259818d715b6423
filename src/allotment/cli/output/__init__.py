"""What users see: where it goes and how wide that is, tables, texts, mistakes."""
