"""What is to be decoded into what, written out by hand."""
