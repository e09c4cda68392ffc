"""The rows of :mod:`coasm.isa.table`, a file for each unit."""
