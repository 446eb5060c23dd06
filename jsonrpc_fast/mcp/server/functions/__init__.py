"""The functions of a server: how they are registered and called.

decorators   the decorators that register functions
registry     registered functions and mounted providers
functions    signatures of registered functions, and sync functions in a thread
providers    `Provider`: tools, prompts and resources from other sources
"""
