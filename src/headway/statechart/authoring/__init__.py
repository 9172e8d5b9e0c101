"""Write a chart as a Python class body."""
