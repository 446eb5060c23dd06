"""Public projects that take the codec in: released sources, changed in a few lines, with tests before and after."""
