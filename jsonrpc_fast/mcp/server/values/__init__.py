"""The values that functions of a server return and get: content blocks, results, structured content, forms.

blocks     content blocks, and what functions may return to set more of a result
contents   content blocks, messages and contents from what functions return
outputs    structured content: its schema, and the check of what a tool returned
tools      validation of arguments and results of tools
forms      forms for the user, from types
paging     pages of lists, and cursors
scopes     scopes of OAuth
"""
