"""Planning: from a condition to the data files that can hold such rows, and the deletes that apply to them."""
