"""Every attribute of a span. Data.

OpenTelemetry's conventions for GenAI (`gen_ai.*`) are still in development: what they rename is renamed here.
"""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"

GENERATION = {
    "temperature": "gen_ai.request.temperature",
    "topP": "gen_ai.request.top_p",
    "topK": "gen_ai.request.top_k",
    "maxOutputTokens": "gen_ai.request.max_tokens",
    "candidateCount": "gen_ai.request.choice.count",
    "seed": "gen_ai.request.seed",
    "frequencyPenalty": "gen_ai.request.frequency_penalty",
    "presencePenalty": "gen_ai.request.presence_penalty",
}
"""Attributes by the field of generationConfig that they hold, each a number."""

PROVIDERS = {"gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "code_assist": "gcp.gen_ai"}
OPERATIONS = {
    "generateContent": "generate_content",
    "streamGenerateContent": "generate_content",
    "batchGenerateContent": "generate_content",
    "embedContent": "embeddings",
    "batchEmbedContents": "embeddings",
}
"""Operations by the API's method; others are no GenAI operation and have no such attribute."""

STATUS = "http.response.status_code"
SERVER = "server.address"
ERROR = "error.type"

KIND = "hookgate.route.kind"
OUTCOME = "hookgate.outcome"
RECEIPT = "hookgate.receipt"
REQUEST_ID = "hookgate.request_id"
REVISION = "hookgate.revision"
TEAM = "hookgate.team"
EVENT = "hookgate.event"
HOOK = "hookgate.hook.name"
HOOK_TYPE = "hookgate.hook.type"
HOOK_MODE = "hookgate.hook.mode"
HOOK_RUNS = "hookgate.hook.runs"
HOOK_SECONDS = "hookgate.hook.seconds"
HOOK_FAILURES = "hookgate.hook.failures"
HOOK_DECISIONS = "hookgate.hook.decisions"
HOOK_EDITS = "hookgate.hook.edits"
