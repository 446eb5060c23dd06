"""The same work in other languages."""
