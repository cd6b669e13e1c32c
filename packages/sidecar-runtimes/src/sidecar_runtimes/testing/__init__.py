"""For tests of runtimes, of this package and of others: the conformance class, and ops that misbehave."""
