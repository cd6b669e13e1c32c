"""The filters, one a file: the file's name is the filter's name."""
