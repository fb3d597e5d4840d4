"""What was seen in a graph, as lines for a terminal and as a page of HTML."""
