"""How ideas come in: what is known, what a proposal is told, who is admitted, who is vetted."""
