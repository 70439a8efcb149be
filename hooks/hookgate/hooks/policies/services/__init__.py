"""The policies whose decisions a service makes: Model Armor, and services of LiteLLM's generic guardrail API.

texts.py finds the texts that are judged, and puts edited ones back; policy.py is what both policies share.
"""
