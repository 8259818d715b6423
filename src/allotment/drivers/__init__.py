"""DRA drivers: a framework that runs a vendor's driver class, and the vendors' drivers."""
