"""One small module for each library that the codec drops into."""
