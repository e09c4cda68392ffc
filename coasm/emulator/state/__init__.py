"""What a launch consists of: waves and their registers, buffers, LDS, scratch."""
