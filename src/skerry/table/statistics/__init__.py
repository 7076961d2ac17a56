"""Statistics: samples and sketches of columns, how they follow changes of rows, and whether they are fresh."""
