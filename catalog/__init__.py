"""The words of gpufare: what an accelerator, a place, a machine, a price, a stock and an offer are. Pure."""
