"""Features that come out of the columns of tables: matched by vertex, missing values filled, standardised."""
