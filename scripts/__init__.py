"""Programs beside the product: run them by their path."""
