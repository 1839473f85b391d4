"""What the commands of `cli` do: build the parts, ask, show, serve."""
