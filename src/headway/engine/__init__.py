"""The durable engine: one door through which every change of a state goes."""
