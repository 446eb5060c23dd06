"""The speed of the codec compared with other libraries that do the same work."""
