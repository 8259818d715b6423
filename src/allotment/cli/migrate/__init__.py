"""The parts of ``allot migrate``'s screen: what is meant, telling, writing."""
