"""NT_AMDGPU_METADATA: msgpack ↔ the YAML that LLVM's assembler turns into the same msgpack."""
