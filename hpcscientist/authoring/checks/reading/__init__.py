"""Files of one version as Python meets them: scopes, flow, imports."""
