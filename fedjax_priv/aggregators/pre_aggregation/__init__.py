"""What is done to the rows before a rule."""
