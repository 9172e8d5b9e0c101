"""Three workers, ten jobs, and somebody who kills one of the workers."""
