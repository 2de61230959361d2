"""Configuration: settings and site profiles, merged from layers; each value has an origin."""
