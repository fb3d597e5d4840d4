"""Statistics of a graph, and what is odd about it: counts, degrees, components, labels, features, leaks.

``gsplit info`` prints it, and draws it as a page. Edges and features are walked in pieces, each of them read once.
"""
