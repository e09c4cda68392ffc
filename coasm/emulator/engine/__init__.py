"""Runs waves: blocks, what is in flight, waits, barriers. What instructions do, the rows know."""
