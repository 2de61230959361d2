"""A server of models that speaks the chat-completions format, over HTTP."""
