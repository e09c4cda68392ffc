"""The commands, one module each; the only room that imports typer and rich."""
