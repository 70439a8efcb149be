"""`make bench`: everything, as ratios measured side by side in one run."""

from benchmarks import audit, event_command, gateway, hooks, idle, redaction, shim, translator

translator.main()
hooks.main()
redaction.main()
gateway.main()
idle.main()
shim.main()
event_command.main()
audit.main()
