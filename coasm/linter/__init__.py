"""What an edit can break and no assembler checks: wait states, waits, resources, operands."""
