"""Language models: client, playbook, record of calls, structured replies, prompts."""
