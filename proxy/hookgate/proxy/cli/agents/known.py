"""The agents that are known, and the settings with which each of them uses the gateway.

In settings, {url} is the gateway's base URL without a slash at its end, and {key} the key of the client.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Api = Literal["gemini", "vertex", "code_assist"]

_PATHS: Mapping[Api, str] = {
    "gemini": r"/v1(?:beta|alpha)?/(?!projects/|publishers/)",
    "vertex": r"/v1(?:beta1)?/(?:projects|publishers)/",
    "code_assist": r"/v1internal[:/]",
}
"""The beginnings of each API's paths."""


@dataclass(frozen=True)
class Agent:
    """An agent, how it is pointed at the gateway, and how its calls are recognized."""

    name: str
    title: str
    base_url: str
    """Where the base URL is set, in Markdown, as in docs/clients.md."""
    login: str
    """What the login needs, in Markdown."""
    tested: str
    """What the project's tests or authors have run. Nothing that goes beyond it is promised."""
    clients: tuple[str, ...]
    """The beginnings of the client's name in receipts, which is the first word of its User-Agent."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of files, in which settings are replaced as in the code, by their paths."""
    code: str = ""
    """Code of the agent's program."""
    managed_file: str = ""
    """The content of the file in which device management sets the same."""
    notes: tuple[str, ...] = ()
    apis: tuple[Api, ...] = ("gemini",)
    https: Literal["", "elsewhere", "always"] = ""
    """Where it requires https: at addresses of other machines, or at all."""
    needs_google_login: bool = False
    """Whether the login cannot be replaced with an issued key."""

    def variables(self, url: str, key: str) -> dict[str, str]:
        """Return the variables of its environment for a gateway and a key."""
        return {name: value.format(url=url, key=key) for name, value in self.environment.items()}

    def settings_files(self, url: str, key: str) -> dict[str, str]:
        """Return the contents of its files by their paths, for a gateway and a key."""
        return {path: text.format(url=url, key=key) for path, text in self.files.items()}

    def program(self, url: str, key: str) -> str:
        """Return the code of its program for a gateway and a key."""
        return self.code.format(url=url, key=key)

    def managed_settings(self, url: str, key: str) -> str:
        """Return the content of its file for device management, for a gateway and a key."""
        return self.managed_file.format(url=url, key=key)

    def recognizes(self, client: str, path: str) -> bool:
        """Return whether a call with this client and path, as in a receipt, may be this agent's."""
        return client.startswith(self.clients) and any(re.match(_PATHS[api], path) for api in self.apis)


_SDK = ("google-genai-sdk",)
_SDK_NOTE = (
    "Google's SDKs, google-adk and LangChain all call themselves google-genai-sdk, so `--check` cannot "
    "distinguish them."
)
_OPENAI_NOTES = (
    "Set either the variables or the options. Without a base URL, it calls OpenAI, past the gateway.",
    "For Vertex AI, the path is /v1/projects/PROJECT/locations/LOCATION/endpoints/openapi.",
    "Both SDKs call themselves OpenAI, so `--check` cannot distinguish them.",
)
_NODE = ("node",)
_NODE_NOTE = (
    "It does not name itself in User-Agent, so `--check` accepts every program on Node that does not."
)
_CLI = ("GeminiCLI",)
_CLI_TESTED = "The tests run Gemini CLI 0.61 with these settings."
_CLI_NOTE = (
    "Select the type in the settings of your user: Gemini CLI skips those of a folder until you trust it."
)


def _cli_settings(selected: str) -> dict[str, str]:
    return {
        "~/.gemini/settings.json": f'{{{{"security": {{{{"auth": {{{{"selectedType": "{selected}"}}}}}}}}}}}}'
    }


_AGY_MANAGED = """\
{{
  "gateway": {{
    "enabled": true,
    "url": "{url}",
    "apiKey": "{key}",
    "wireProtocol": "genai"
  }},
  "auth": {{
    "suppressInteractiveLogin": true
  }}
}}
"""


AGENTS = (
    Agent(
        "gemini-cli",
        "Gemini CLI, API key",
        "`GOOGLE_GEMINI_BASE_URL`",
        "`GEMINI_API_KEY`, with the selected type `gemini-api-key`",
        _CLI_TESTED,
        _CLI,
        {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{key}"},
        _cli_settings("gemini-api-key"),
        notes=(_CLI_NOTE,),
        https="elsewhere",
    ),
    Agent(
        "gemini-cli-vertex",
        "Gemini CLI, Vertex AI",
        "`GOOGLE_VERTEX_BASE_URL`",
        "`GOOGLE_GENAI_USE_VERTEXAI=true` and `GOOGLE_API_KEY`, with the selected type `vertex-ai`",
        _CLI_TESTED,
        _CLI,
        {
            "GOOGLE_VERTEX_BASE_URL": "{url}",
            "GOOGLE_GENAI_USE_VERTEXAI": "true",
            "GOOGLE_API_KEY": "{key}",
        },
        _cli_settings("vertex-ai"),
        notes=(_CLI_NOTE,),
        apis=("vertex",),
        https="elsewhere",
    ),
    Agent(
        "gemini-cli-login",
        "Gemini CLI, Google login",
        "`CODE_ASSIST_ENDPOINT`",
        "the login, with the selected type `oauth-personal`",
        f"{_CLI_TESTED[:-1]}, with an access token in place of the login in a browser.",
        _CLI,
        {"CODE_ASSIST_ENDPOINT": "{url}"},
        _cli_settings("oauth-personal"),
        notes=(_CLI_NOTE,),
        apis=("code_assist",),
        https="elsewhere",
        needs_google_login=True,
    ),
    Agent(
        "google-genai",
        "google-genai (Python)",
        '`GOOGLE_GEMINI_BASE_URL`, or `http_options={"base_url": …}`',
        "as without the gateway",
        "The tests run google-genai 3.4 with both, for the Gemini API and for Vertex AI with an API key.",
        _SDK,
        {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{key}"},
        code='from google import genai\n\nbase = {{"base_url": "{url}"}}\n'
        'client = genai.Client(api_key="{key}", http_options=base)\n'
        'print(client.models.generate_content(model="gemini-3.8-flash", contents="Say good morning.").text)',
        notes=(
            "Set either the variables or the options.",
            "It ignores GOOGLE_VERTEX_BASE_URL. For Vertex AI, set the options.",
            _SDK_NOTE,
        ),
        apis=("gemini", "vertex"),
    ),
    Agent(
        "google-genai-js",
        "@google/genai (JavaScript)",
        "`GOOGLE_GEMINI_BASE_URL`, or `httpOptions: {baseUrl: …}`",
        "as without the gateway",
        "The tests run @google/genai 3.1 with these options.",
        _SDK,
        {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{key}"},
        code='import {{GoogleGenAI}} from "@google/genai";\n\n'
        'const client = new GoogleGenAI({{apiKey: "{key}", httpOptions: {{baseUrl: "{url}"}}}});\n'
        'const asked = {{model: "gemini-3.8-flash", contents: "Say good morning."}};\n'
        "const answer = await client.models.generateContent(asked);\n"
        "console.log(answer.text);",
        notes=(
            "Set either the variables or the options.",
            "For Vertex AI it reads GOOGLE_VERTEX_BASE_URL instead.",
            _SDK_NOTE,
        ),
        apis=("gemini", "vertex"),
    ),
    Agent(
        "google-adk",
        "google-adk",
        "`Gemini(model=…, base_url=…)`",
        "`GOOGLE_API_KEY`",
        "The tests run google-adk 2.13 with this model.",
        _SDK,
        {"GOOGLE_API_KEY": "{key}"},
        code="from google.adk.agents import LlmAgent\nfrom google.adk.models import Gemini\n\n"
        'model = Gemini(model="gemini-3.8-flash", base_url="{url}")\n'
        'agent = LlmAgent(name="helper", model=model)',
        notes=("The plugin `hookgate.shim.adk` reports its tools to the gateway.", _SDK_NOTE),
    ),
    Agent(
        "google-adk-apigee",
        "google-adk with `ApigeeLlm`",
        "`ApigeeLlm(model=…, proxy_url=…)`, or `APIGEE_PROXY_URL`",
        "`GOOGLE_API_KEY`",
        "The tests run google-adk 2.13 with this model. Vertex AI by ApigeeLlm was not tested.",
        _SDK,
        {"GOOGLE_API_KEY": "{key}"},
        code="from google.adk.agents import LlmAgent\nfrom google.adk.models.apigee_llm import ApigeeLlm\n\n"
        'model = ApigeeLlm(model="apigee/gemini/v1beta/gemini-3.8-flash", proxy_url="{url}")\n'
        'agent = LlmAgent(name="helper", model=model)',
        notes=(_SDK_NOTE,),
    ),
    Agent(
        "antigravity-sdk",
        "Antigravity, Python SDK",
        "`GeminiAPIEndpoint(base_url=…, api_key=…)`",
        "the endpoint's `api_key`",
        "The tests run google-antigravity 0.1.22 with this model.",
        ("google-antigravity-sdk",),
        code="from google.antigravity import LocalAgentConfig, types\n\n"
        'endpoint = types.GeminiAPIEndpoint(base_url="{url}", api_key="{key}")\n'
        'text = types.ModelTarget(name="gemini-3.8-flash", endpoint=endpoint)\n'
        "kinds = [types.ModelType.IMAGE]\n"
        'image = types.ModelTarget(name="gemini-3.1-flash-lite-image", types=kinds, endpoint=endpoint)\n'
        "config = LocalAgentConfig(models=[text, image])",
        notes=(
            "Without an image model, the SDK adds one whose calls do not pass through the gateway.",
            "The hooks of `hookgate.shim.antigravity` report its session to the gateway.",
        ),
    ),
    Agent(
        "antigravity",
        "Antigravity and `agy`, gateway mode",
        "`AGY_LLM_GATEWAY_URL`, https only",
        "`AGY_LLM_GATEWAY_API_KEY`, an [issued key](keys.md)",
        "Not tested: agy has not been run. The variables are those that Google documents.",
        ("antigravity",),
        {
            "AGY_LLM_GATEWAY_URL": "{url}",
            "AGY_LLM_GATEWAY_API_KEY": "{key}",
            "AGY_LLM_GATEWAY_WIRE_PROTOCOL": "genai",
        },
        notes=(
            "In this mode, gateways issue the keys of their clients: set clients.issued_keys.",
            "If a private certificate authority issued the gateway's certificate, set "
            "AGY_LLM_GATEWAY_CA_CERT to its bundle.",
            'The wire protocol "openai" uses chat completions, which hooks judge, too. The tests run it with '
            "the harness of the Python SDK.",
            "With an API key, it is reported to load its own hooks (hooks.json), and not to run them; the "
            "events that the gateway derives from its calls carry the policy. Where its hooks run, "
            "`hookgate shim install antigravity` reports its events.",
            "The file is admin_settings.json in /etc/antigravity on Linux, in /Library/Application Support/"
            "Antigravity on macOS, and in %ProgramData%\\Antigravity on Windows. Every user must be able to "
            "read it, so issue a key for each machine.",
            "The names in it are those of a published setup for another gateway. Compare them with Google's "
            'page "Configure an enterprise gateway for Google Antigravity" before you roll it out.',
            "With --write FILE, this command writes it, with the key from stdin.",
        ),
        managed_file=_AGY_MANAGED,
        apis=("gemini", "vertex"),
        https="always",
    ),
    Agent(
        "langchain",
        "LangChain (langchain-google-genai)",
        "`ChatGoogleGenerativeAI(base_url=…)`",
        "`api_key`, or `GOOGLE_API_KEY`",
        "The tests run langchain-google-genai 4.4 with this model.",
        _SDK,
        code="from langchain_google_genai import ChatGoogleGenerativeAI\n\n"
        'model = ChatGoogleGenerativeAI(model="gemini-3.8-flash", api_key="{key}", base_url="{url}")\n'
        'print(model.invoke("Say good morning.").content)',
        notes=(_SDK_NOTE,),
    ),
    Agent(
        "litellm",
        "LiteLLM",
        "`api_base=…`, with `/v1beta` at its end",
        "`api_key`",
        "The tests run LiteLLM 1.106 with this call.",
        ("litellm",),
        code="import litellm\n\n"
        'messages = [{{"role": "user", "content": "Say good morning."}}]\n'
        'model, base = "gemini/gemini-3.8-flash", "{url}/v1beta"\n'
        'answer = litellm.completion(model=model, api_base=base, api_key="{key}", messages=messages)\n'
        "print(answer.choices[0].message.content)",
        notes=("Without /v1beta at its end, the paths are refused: LiteLLM does not add a version.",),
    ),
    Agent(
        "pydantic-ai",
        "Pydantic AI",
        "`GoogleProvider(base_url=…)`",
        "`api_key`",
        "The tests run pydantic-ai 2.68 with this model.",
        _SDK,
        code="from pydantic_ai import Agent\nfrom pydantic_ai.models.google import GoogleModel\n"
        "from pydantic_ai.providers.google import GoogleProvider\n\n"
        'provider = GoogleProvider(api_key="{key}", base_url="{url}")\n'
        'agent = Agent(GoogleModel("gemini-3.8-flash", provider=provider))\n'
        'print(agent.run_sync("Say good morning.").output)',
        notes=(_SDK_NOTE,),
    ),
    Agent(
        "llama-index",
        "LlamaIndex (llama-index-llms-google-genai)",
        "`GoogleGenAI(http_options=HttpOptions(base_url=…))`",
        "`api_key`",
        "The tests run llama-index-llms-google-genai 0.11 with this model.",
        _SDK,
        code="from google.genai.types import HttpOptions\n"
        "from llama_index.llms.google_genai import GoogleGenAI\n\n"
        'base = HttpOptions(base_url="{url}")\n'
        'llm = GoogleGenAI(model="gemini-3.8-flash", api_key="{key}", http_options=base)\n'
        'print(llm.complete("Say good morning."))',
        notes=("It asks for the description of the model before its first call.", _SDK_NOTE),
    ),
    Agent(
        "langchain-js",
        "LangChain.js (@langchain/google-genai)",
        "`new ChatGoogleGenerativeAI({baseUrl: …})`",
        "`apiKey`",
        "The tests run @langchain/google-genai 2.3 with this model.",
        _NODE,
        code='import {{ChatGoogleGenerativeAI}} from "@langchain/google-genai";\n\n'
        'const options = {{model: "gemini-3.8-flash", apiKey: "{key}", baseUrl: "{url}"}};\n'
        "const model = new ChatGoogleGenerativeAI(options);\n"
        'console.log((await model.invoke("Say good morning.")).text);',
        notes=(_NODE_NOTE,),
    ),
    Agent(
        "langchain-google-js",
        "LangChain.js (@langchain/google)",
        "`new ChatGoogle({endpoint: …})`",
        "`apiKey`",
        "The tests run @langchain/google 0.2 with this model.",
        _NODE,
        code='import {{ChatGoogle}} from "@langchain/google";\n\n'
        'const options = {{model: "gemini-3.8-flash", apiKey: "{key}", endpoint: "{url}"}};\n'
        "const model = new ChatGoogle(options);\n"
        'console.log((await model.invoke("Say good morning.")).text);',
        notes=("The option is endpoint; baseUrl is ignored, and calls go past the gateway.", _NODE_NOTE),
    ),
    Agent(
        "genkit-js",
        "Genkit (JavaScript)",
        "`googleAI({baseUrl: …})`",
        "`apiKey`",
        "The tests run Genkit 1.42 with this plugin.",
        _NODE,
        code='import {{genkit}} from "genkit";\nimport {{googleAI}} from "@genkit-ai/google-genai";\n\n'
        'const ai = genkit({{plugins: [googleAI({{apiKey: "{key}", baseUrl: "{url}"}})]}});\n'
        'const asked = {{model: googleAI.model("gemini-3.8-flash"), prompt: "Say good morning."}};\n'
        "console.log((await ai.generate(asked)).text);",
        notes=(_NODE_NOTE,),
    ),
    Agent(
        "ai-sdk-js",
        "AI SDK (@ai-sdk/google)",
        "`createGoogleGenerativeAI({baseURL: …})`, with `/v1beta` at its end",
        "`apiKey`",
        "The tests run @ai-sdk/google 4.0 with this model.",
        ("ai",),
        code='import {{generateText}} from "ai";\n'
        'import {{createGoogleGenerativeAI}} from "@ai-sdk/google";\n\n'
        'const google = createGoogleGenerativeAI({{apiKey: "{key}", baseURL: "{url}/v1beta"}});\n'
        'const asked = {{model: google("gemini-3.8-flash"), prompt: "Say good morning."}};\n'
        "console.log((await generateText(asked)).text);",
        notes=("Without /v1beta at its end, the paths are refused: the SDK does not add a version.",),
    ),
    Agent(
        "mastra-js",
        "Mastra",
        "`createGoogleGenerativeAI({baseURL: …})`, with `/v1beta` at its end",
        "`apiKey`",
        "The tests run @mastra/core 1.71 with this model.",
        ("ai-sdk",),
        code='import {{Agent}} from "@mastra/core/agent";\n'
        'import {{createGoogleGenerativeAI}} from "@ai-sdk/google";\n\n'
        'const google = createGoogleGenerativeAI({{apiKey: "{key}", baseURL: "{url}/v1beta"}});\n'
        'const about = {{id: "helper", name: "helper", instructions: "Be brief."}};\n'
        'const agent = new Agent({{...about, model: google("gemini-3.8-flash")}});\n'
        'console.log((await agent.generate("Say good morning.")).text);',
        notes=("Without /v1beta at its end, the paths are refused: the SDK does not add a version.",),
    ),
    Agent(
        "generative-ai-js",
        "@google/generative-ai (old SDK for JavaScript)",
        "`getGenerativeModel(…, {baseUrl: …})`",
        "as without the gateway",
        "The tests run @google/generative-ai 0.24 with this model.",
        _NODE,
        code='import {{GoogleGenerativeAI}} from "@google/generative-ai";\n\n'
        'const client = new GoogleGenerativeAI("{key}");\n'
        'const base = {{baseUrl: "{url}"}};\n'
        'const model = client.getGenerativeModel({{model: "gemini-3.8-flash"}}, base);\n'
        'console.log((await model.generateContent("Say good morning.")).response.text());',
        notes=(_NODE_NOTE,),
    ),
    Agent(
        "openai",
        "OpenAI (Python)",
        "`OPENAI_BASE_URL`, or `OpenAI(base_url=…)`, with `/v1beta/openai/` at its end",
        "`OPENAI_API_KEY`, or `api_key`",
        "The tests run openai 3.54 with both.",
        ("OpenAI", "AsyncOpenAI"),
        {"OPENAI_BASE_URL": "{url}/v1beta/openai/", "OPENAI_API_KEY": "{key}"},
        code="from openai import OpenAI\n\n"
        'client = OpenAI(base_url="{url}/v1beta/openai/", api_key="{key}")\n'
        'messages = [{{"role": "user", "content": "Say good morning."}}]\n'
        'answer = client.chat.completions.create(model="gemini-3.8-flash", messages=messages)\n'
        "print(answer.choices[0].message.content)",
        notes=_OPENAI_NOTES,
        apis=("gemini", "vertex"),
    ),
    Agent(
        "openai-js",
        "OpenAI (JavaScript)",
        "`OPENAI_BASE_URL`, or `new OpenAI({baseURL: …})`, with `/v1beta/openai/` at its end",
        "`OPENAI_API_KEY`, or `apiKey`",
        "The tests run openai 6.49 with both.",
        ("OpenAI",),
        {"OPENAI_BASE_URL": "{url}/v1beta/openai/", "OPENAI_API_KEY": "{key}"},
        code='import OpenAI from "openai";\n\n'
        'const client = new OpenAI({{baseURL: "{url}/v1beta/openai/", apiKey: "{key}"}});\n'
        'const messages = [{{role: "user", content: "Say good morning."}}];\n'
        'const answer = await client.chat.completions.create({{model: "gemini-3.8-flash", messages}});\n'
        "console.log(answer.choices[0].message.content);",
        notes=_OPENAI_NOTES,
        apis=("gemini", "vertex"),
    ),
    Agent(
        "aider",
        "aider",
        "`extra_params: {api_base: …}`, with `/v1beta` at its end",
        "`GEMINI_API_KEY`",
        "The tests run aider 0.86 with these settings.",
        ("litellm",),
        {"GEMINI_API_KEY": "{key}"},
        {
            "~/.aider.model.settings.yml": "- name: aider/extra_params\n"
            "  extra_params:\n"
            "    api_base: {url}/v1beta\n"
        },
        notes=(
            "The settings apply to every model of aider: name models of Gemini only, such as "
            "gemini/gemini-3.8-flash.",
            "aider calls models with LiteLLM, and has its User-Agent.",
        ),
    ),
    Agent(
        "opencode",
        "opencode",
        "`provider: {google: {options: {baseURL: …}}}`, with `/v1beta` at its end",
        "`GOOGLE_GENERATIVE_AI_API_KEY`",
        "The tests run opencode 1.18 with these settings.",
        ("opencode",),
        {"GOOGLE_GENERATIVE_AI_API_KEY": "{key}"},
        {
            "~/.config/opencode/opencode.json": '{{"provider": {{"google": {{"options": '
            '{{"baseURL": "{url}/v1beta"}}}}}}}}'
        },
        notes=("Without /v1beta at its end, the paths are refused: opencode does not add a version.",),
    ),
)
"""All agents, in the order in which they are listed."""


def find_agent(name: str) -> Agent:
    """Return the agent of this name. Raises ValueError with the known names."""
    for agent in AGENTS:
        if agent.name == name:
            return agent
    known = ", ".join(agent.name for agent in AGENTS)
    raise ValueError(f"{name!r} is not an agent that hookgate knows; choose one of: {known}")
