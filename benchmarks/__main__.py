"""`make bench`: everything, as ratios measured side by side in one run."""

from benchmarks import gateway, hooks, idle, translator

translator.main()
hooks.main()
gateway.main()
idle.main()
