"""From a direction to an idea that may be written as code: proposals, judgements, the bank."""
