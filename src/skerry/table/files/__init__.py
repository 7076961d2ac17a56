"""Files of rows, in every format that tables have: opened, read, written, and the rows that are deleted from them."""
