"""Pages of HTML that need no network: their frame and style, and pictures as SVG within them."""
