"""`make bench`: compares the gateway with other proxies, then measures its parts."""

from benchmarks import audit, event_command, hooks, redaction, shim, translator
from benchmarks.gateway import __main__ as gateway
from benchmarks.gateway import profiles
from benchmarks.gateway.pages import __main__ as pages

gateway.main(["--json", str(pages.FIGURES)])
profiles.take(pages.PROFILES)
pages.main()
translator.main()
hooks.main()
redaction.main()
shim.main()
event_command.main()
audit.main()
