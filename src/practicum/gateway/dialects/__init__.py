"""How clients word requests and answers: one module a dialect, each made of pure functions.

Every dialect has the same functions, given by `Dialect`; the server only routes.
"""
