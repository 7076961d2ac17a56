"""Planning: from a condition to the data files that may match, and the deletes that apply to them."""
