"""What every store must do, by the nouns of the port; it runs on each kind of store.

The tests take two fixtures: `place`, where rows live, and `store`, an opened store there.
"""
