"""Where the text that an edit quotes stands, read more and more loosely."""
