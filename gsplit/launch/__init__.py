"""From what was asked for to a run that trains: everything is decided and checked, then processes are started."""
