"""The functions of a server: how they are registered, called and surrounded.

decorators   the decorators that register functions
registry     what is registered and mounted
functions    signatures of registered functions
threads      sync functions in a thread, and their context
middleware   functions around every method
providers    `Provider`: tools, prompts and resources from elsewhere
"""
