from pathlib import Path


def split(name):
    try:
        return {"train": [1]}[name]
    except KeyError:
        return (Path(__file__).parent / "absent" / name).read_text()
