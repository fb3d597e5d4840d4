"""Tables in text, Parquet and databases, read in chunks of rows; kinds of their columns, and what is no value."""
