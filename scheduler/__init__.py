"""Polling: what is due is claimed, asked, read and recorded. The only place that catches a provider's errors."""
