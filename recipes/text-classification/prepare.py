"""Short texts that are for or against something: some labelled to train on, others withheld.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host and is deterministic. Without a folder the texts are generated in a made-up
language, which has words for and against, negation, emphasis, contrast and irony. A folder holds
SST-2 as GLUE has it (SST-2/train.tsv, SST-2/dev.tsv) and the folder bert-base-uncased. Writes

    DIR/public/train/            texts.csv: label,text; bert/ where the folder has it
    DIR/public/validation|test/  texts.csv: id,text
    DIR/private/validation|test/ labels.csv: id,label

GLUE's labels of its own test are not public: its dev.tsv is the test here, and validation is cut
from train.tsv. Texts that also occur among those to train on are left out of both.
"""

import argparse
import csv
import random
import shutil
from pathlib import Path

TRAIN, HELD_OUT = 6000, 1000

SEED = 0x5D09E6B1_F2C87A34_96B1D05F_3EA4C728  # 128 bits: nobody tries them all
BERT = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


class Language:
    """A made-up language of opinions. `random` is the same in all versions of Python 3."""

    def __init__(self, rng):
        self.rng = rng
        made = self.words(700)
        self.values = {w: rng.choice([-2, -1, -1, 1, 1, 2]) for w in made[:120]}
        self.neutral = made[120:680]
        self.no, self.very, self.but, self.irony = (
            made[680:682],
            made[682:685],
            made[685],
            made[686],
        )

    def words(self, count):
        made = set()
        while len(made) < count:
            syllables = self.rng.choice([1, 2, 2, 3])
            made.add(
                "".join(
                    self.rng.choice("bdfgklmnprstvz") + self.rng.choice("aeiou")
                    for _ in range(syllables)
                )
                + self.rng.choice(["", "n", "s", "t"])
            )
        made = sorted(made)
        self.rng.shuffle(made)
        return made

    def clause(self):
        """Return a clause's words and what it says, above zero for."""
        said, value = [], 0
        for _ in range(self.rng.randint(1, 3)):
            said += self.rng.choices(self.neutral, k=self.rng.randint(0, 3))
            word = self.rng.choice(list(self.values))
            own = self.values[word]
            if self.rng.random() < 0.25:
                said.append(self.rng.choice(self.very))
                own *= 2
            if self.rng.random() < 0.3:
                said.append(self.rng.choice(self.no))
                own = -own
            said.append(word)
            value += own
        return said, value

    def text(self):
        """Return a text and its label; one that is for nothing and against nothing is no text."""
        said, value = self.clause()
        if self.rng.random() < 0.3:
            more, other = self.clause()
            said, value = [*said, self.but, *more], value + 3 * other
        if self.rng.random() < 0.05:
            said, value = [*said, self.irony], -value
        return (" ".join(said), int(value > 0)) if value else self.text()


def generated(rng):
    language = Language(rng)
    texts = list(dict.fromkeys(language.text() for _ in range(2 * (TRAIN + 2 * HELD_OUT))))
    return texts[:TRAIN], texts[TRAIN : TRAIN + HELD_OUT], texts[TRAIN + HELD_OUT :][:HELD_OUT]


def sst2(folder, rng):
    def read(name):
        with (folder / "SST-2" / name).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [(row["sentence"].strip(), int(row["label"])) for row in rows]

    rows, test = read("train.tsv"), read("dev.tsv")
    rng.shuffle(rows)
    return rows[HELD_OUT:], rows[:HELD_OUT], test


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    rng = random.Random(SEED)
    train, *held_out = sst2(args.data, rng) if args.data else generated(rng)
    folder = args.out / "public" / "train"
    write(folder / "texts.csv", ["label", "text"], [row[::-1] for row in train])
    if args.data:
        (folder / "bert").mkdir()
        for name in BERT:
            shutil.copyfile(args.data / "bert-base-uncased" / name, folder / "bert" / name)
    seen = {text for text, _ in train}
    for part, own in zip(("validation", "test"), held_out, strict=True):
        rows = [row for row in own if row[0] not in seen]
        texts = [(i, text) for i, (text, _) in enumerate(rows)]
        write(args.out / "public" / part / "texts.csv", ["id", "text"], texts)
        labels = [(i, label) for i, (_, label) in enumerate(rows)]
        write(args.out / "private" / part / "labels.csv", ["id", "label"], labels)


if __name__ == "__main__":
    main()
