"""What gpufare costs, each figure beside a peer that is measured in the same run: docs/bench.md."""
