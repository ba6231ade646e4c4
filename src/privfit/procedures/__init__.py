"""Private computations on the rows, one file per method. The oracle carries them out."""
