"""What instructions do: a row for each mnemonic, on all waves of a group at once."""
