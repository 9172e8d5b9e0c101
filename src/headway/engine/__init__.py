"""The durable engine: every change of a state is made here, in one transaction."""
