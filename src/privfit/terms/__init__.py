"""Terms of a formula: from ``"y ~ a * C(b)"`` to the columns of a design, by public facts alone."""
