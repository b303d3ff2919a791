"""Original against patched: the same numbers? faster? by how much? Measured in fresh processes on working copies."""
