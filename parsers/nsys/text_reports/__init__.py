"""Read the text output of `nsys stats` and the tables of `nsys recipe`."""
