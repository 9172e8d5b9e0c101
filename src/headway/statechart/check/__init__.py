"""What can be known to be wrong with a chart before it runs."""
