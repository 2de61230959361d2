"""Where the text that an edit quotes stands."""
