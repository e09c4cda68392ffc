"""Where execution goes: the blocks and edges of an object's code, and what holds along them."""
