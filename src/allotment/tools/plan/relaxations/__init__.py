"""What one concession would save, each tried."""
