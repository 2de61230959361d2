import logging


def load(name):
    try:
        with open(name) as file:
            return file.readlines()
    except OSError:
        logging.exception("could not load %s:", name)
