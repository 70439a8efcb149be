"""`make bench`: everything, as ratios measured side by side in one run."""

from benchmarks import gateway, translator

translator.main()
gateway.main()
