"""Sets of integers as Roaring bitmaps: the bytes that Iceberg's and Paimon's deletion vectors are made of."""
