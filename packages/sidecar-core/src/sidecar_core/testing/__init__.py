"""What tests of ops, runtimes and other packages build on."""
