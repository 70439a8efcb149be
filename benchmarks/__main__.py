"""`make bench`: everything, as ratios measured side by side in one run."""

from benchmarks import gateway, hooks, translator

translator.main()
hooks.main()
gateway.main()
