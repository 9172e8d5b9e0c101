"""The safe expression language of charts that come from outside."""
