"""What the codec costs, beside the libraries that do the same work."""
