"""DRA drivers: a framework in which a vendor's driver is one small class, and the drivers of vendors."""
