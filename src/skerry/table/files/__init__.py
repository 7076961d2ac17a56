"""Data files in all supported formats: opening, reading, writing, and the deletes that apply to them."""
