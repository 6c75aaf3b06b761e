"""One file for each model API, through its own SDK, and a scripted model for tests and demos."""

from nottwice.agent.provider import ModelRequest as ModelRequest
from nottwice.agent.providers.anthropic_messages import anthropic as anthropic
from nottwice.agent.providers.fallback import fallback as fallback
from nottwice.agent.providers.openai_responses import openai as openai
from nottwice.agent.providers.scripted import scripted as scripted
