"""What is inside a secure sum: graph, shares, masks and their expansion."""
