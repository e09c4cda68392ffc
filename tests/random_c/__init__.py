"""Random C programs, run on the host and on the emulator: no program may give two results."""
