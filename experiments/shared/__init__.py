"""What experiments share: graphs, flags, placements, systems, counts of traffic, results."""
