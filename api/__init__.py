"""The HTTP server: answers from memory what the database holds, and takes what launches taught."""
