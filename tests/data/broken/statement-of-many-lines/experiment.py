DEFAULTS = None
given = {"rate": 0.1}


def merged(
    defaults,
    given,
):
    return (
        defaults
        | given
    )


merged(
    DEFAULTS,
    given,
)
