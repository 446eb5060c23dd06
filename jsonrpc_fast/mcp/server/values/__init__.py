"""The values that functions of a server return and receive: content blocks, results, structured content, forms.

blocks     content blocks, and return values that set more of a result
contents   content blocks, messages and contents, made from return values
outputs    structured content: its schema, and the check of a tool's result
tools      validation of arguments and results of tools
forms      forms for the user, from types
paging     pages of lists, and cursors
scopes     scopes of OAuth
"""
