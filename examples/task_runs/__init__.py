"""Documents on their way through three phases, as one task run with two hundred processes."""
