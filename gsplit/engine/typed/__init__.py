"""What is different where vertices have several types: blocks and rows by type, trained rows, what is refused."""
