"""An overview of a graph, as lines for a terminal and as a page of HTML."""
