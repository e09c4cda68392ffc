"""NT_AMDGPU_METADATA: msgpack ↔ the YAML that LLVM's assembler turns into the same msgpack."""

from coasm.notes.compare import MISSING, Difference, differences, document_differences
from coasm.notes.document import decode, encode
from coasm.notes.schema import accepted
from coasm.notes.yaml import to_yaml

__all__ = [
    "MISSING",
    "Difference",
    "accepted",
    "decode",
    "differences",
    "document_differences",
    "encode",
    "to_yaml",
]
