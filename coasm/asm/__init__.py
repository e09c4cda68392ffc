"""The ``.s`` file: decoding, writing, pins, and its way back to bytes."""
