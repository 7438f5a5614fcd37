"""The table that maps requests to tokens in an LLM inference engine: see it, break it, repair it."""
