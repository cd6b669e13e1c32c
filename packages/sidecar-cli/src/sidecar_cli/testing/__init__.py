"""What tests of this program run in isolated children."""
