"""From numbers to cells: glyphs and style ids in numpy arrays, no terminal and no colour names."""
