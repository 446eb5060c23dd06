"""The tests of other libraries over their adapters, and measurements of both."""
