"""What other programs write of a graph: a module for each format, imported when it is used."""
