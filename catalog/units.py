"""Units that more than one part converts between."""

MIB_PER_GIB = 1024
