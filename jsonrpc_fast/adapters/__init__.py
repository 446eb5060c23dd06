"""One small module for each library that can use this package's codec and transports."""
