"""What the records of two processes say: equal numbers, equal output, a time ratio. Pure functions, never torch."""
