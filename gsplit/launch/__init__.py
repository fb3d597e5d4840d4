"""From what was asked for to a run at work: everything is decided and checked, then processes are started."""
