"""Read text of `nsys stats` and tables of `nsys recipe`."""
