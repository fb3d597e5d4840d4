"""``gsplit doctor``: a diagnosis of this host and, with a layout, of whether a training fits it."""
