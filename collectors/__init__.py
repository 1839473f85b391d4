"""One file a provider: what to ask, how to fetch it, what the answer means."""
