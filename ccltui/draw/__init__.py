"""Draw numbers as cells: glyphs and style ids in numpy arrays, independent of the terminal."""
