"""The clients of the matrix, by the name that each has in a test's ID and in the table of clients."""

from support.clients import CLIENTS, FRAMEWORK_CLIENTS, Client
from support.coding_agents import CODING_AGENTS
from support.jdk import Jdk
from support.openai_clients import OPENAI_CLIENTS

SLOW: dict[str, Client] = FRAMEWORK_CLIENTS | CODING_AGENTS
"""Those that only `make slow` installs."""
MATRIX: dict[str, Client] = CLIENTS | OPENAI_CLIENTS | {"jdk": Jdk()} | SLOW
