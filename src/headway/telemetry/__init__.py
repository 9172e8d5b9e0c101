"""What a node shows of itself: metrics, log lines and traces. It watches and slows nothing down."""
