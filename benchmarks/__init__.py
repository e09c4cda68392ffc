"""What is timed, each against its floor in the same run: ``python -m benchmarks``."""
