"""Tables on their way to the rows of a regression: declared, read, encoded and bounded."""
