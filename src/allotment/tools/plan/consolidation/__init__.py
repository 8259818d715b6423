"""Which running machines could go, with a proven place for every pod."""
