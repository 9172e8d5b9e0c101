"""An office that pays expense claims, and goes on where it was when its process is killed."""
