"""What a user may say: the flags of the commands, with the range of each."""
