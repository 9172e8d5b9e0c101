"""What every store must do: one suite, run on each of them.

The tests are coroutines, and they take two fixtures of whoever runs them: `place`, where rows live, and
`store`, an opened store there. Derive a class from `suite.StoreContract`, and pytest finds them.
"""
