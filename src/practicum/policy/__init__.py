"""One model that samples and learns.

Import from its modules: some of them load torch and some, such as the catalog, must not.
"""
