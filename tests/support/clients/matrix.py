"""The clients of the matrix, by the name that each has in a test's ID and in the table of clients."""

from support.clients.coding_agents import CODING_AGENTS
from support.clients.interface import CLIENTS, FRAMEWORK_CLIENTS, Client
from support.clients.jdk import Jdk
from support.clients.openai_clients import OPENAI_CLIENTS

SLOW: dict[str, Client] = FRAMEWORK_CLIENTS | CODING_AGENTS
"""Those that only `make slow` installs."""
MATRIX: dict[str, Client] = CLIENTS | OPENAI_CLIENTS | {"jdk": Jdk()} | SLOW
