"""Job queues that others have written, each draining jobs that do nothing, in a process of its own."""
