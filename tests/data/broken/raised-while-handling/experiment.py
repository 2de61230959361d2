def rate(settings):
    try:
        return float(settings["rate"])
    except ValueError as error:
        looger.warning("no rate: %s", error)
        return 0.1


print(rate({"rate": "fast"}))
