"""The version of the package, and nothing else: modules of every layer and the build read it."""

__version__ = "0.1.0"
