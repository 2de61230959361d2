"""Classify short texts: logistic regression on n-grams in NumPy, or a fine-tuned BERT.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train/texts.csv (label,text) and DIR/SPLIT/texts.csv (id,text). Writes predictions.csv
(id,label) and progress.jsonl to the --out folder. Needs NumPy; METHOD "bert" needs PyTorch,
transformers and the weights in DIR/train/bert, and trains in bfloat16 on a GPU.
"""

import argparse
import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np

METHOD = "ngrams"  # "ngrams" or "bert"
EPOCHS = 15
BATCH_SIZE = 32
LEARNING_RATE = 1.0
WEIGHT_DECAY = 0.0001
LONGEST = 2  # words of an n-gram
RAREST = 1  # texts that an n-gram must occur in
WEIGHTING = "binary"  # "binary" or "tfidf"

BERT_LENGTH = 128  # tokens of a text that are read
BERT_SHARE = 0.9  # of the texts are trained on, the others say which epoch was best
PILOT_SHARE = 0.2  # of the epochs, or of BERT's texts


def read_texts(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ngrams(text):
    words = ["<", *text.split(), ">"]
    return [
        " ".join(words[i : i + n]) for n in range(1, LONGEST + 1) for i in range(len(words) - n + 1)
    ]


class Ngrams:
    """Rows of the n-grams that occur in texts, as pairs of column and weight."""

    def __init__(self, texts):
        counts = Counter(gram for text in texts for gram in set(ngrams(text)))
        kept = sorted(gram for gram, count in counts.items() if count >= RAREST)
        self.columns = {gram: column for column, gram in enumerate(kept)}
        rarity = np.log(len(texts) / np.array([counts[gram] for gram in kept]))
        self.weights = rarity if WEIGHTING == "tfidf" else np.ones(len(kept))

    def rows(self, texts):
        """Return each text's columns, and its weights at unit length."""
        found = []
        for text in texts:
            columns = np.array(
                sorted({self.columns[g] for g in ngrams(text) if g in self.columns}), dtype=int
            )
            weights = self.weights[columns]
            found.append((columns, weights / max(np.linalg.norm(weights), 1e-12)))
        return found


def by_ngrams(texts, labels, asked, pilot, rng, progress):
    """Return the predicted labels of a logistic regression trained by gradient descent."""
    grams = Ngrams(texts)
    rows, weights, bias = grams.rows(texts), np.zeros(len(grams.columns)), 0.0
    epochs = max(1, round(PILOT_SHARE * EPOCHS)) if pilot else EPOCHS
    for epoch in range(epochs):
        losses = []
        order = rng.permutation(len(rows))
        for batch in np.array_split(order, -(-len(rows) // BATCH_SIZE)):
            scores = np.array([weights[rows[i][0]] @ rows[i][1] for i in batch]) + bias
            probabilities = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
            errors = labels[batch] - probabilities
            weights *= 1 - LEARNING_RATE * WEIGHT_DECAY
            for i, error in zip(batch, errors, strict=True):
                weights[rows[i][0]] += LEARNING_RATE * error * rows[i][1]
            bias += LEARNING_RATE * errors.mean()
            losses.append(-np.log(1 - np.abs(errors) + 1e-12).mean())
        progress.append({"epoch": epoch + 1, "train_loss": round(float(np.mean(losses)), 5)})
    return [int(weights[columns] @ own + bias > 0) for columns, own in grams.rows(asked)]


def by_bert(texts, labels, asked, pilot, rng, folder, progress):
    """Return the labels that a fine-tuned BERT predicts, after its best epoch."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(int(rng.integers(2**31)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    order = rng.permutation(len(texts))[: round(PILOT_SHARE * len(texts)) if pilot else None]
    train, held = np.split(order, [round(BERT_SHARE * len(order))])

    def logits(batch):
        words = tokenizer(
            batch, truncation=True, max_length=BERT_LENGTH, padding=True, return_tensors="pt"
        )
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            return model(**words.to(device)).logits.float()

    @torch.no_grad()
    def predicted(batch):
        model.eval()
        parts = [batch[i : i + 256] for i in range(0, len(batch), 256)]
        return np.concatenate([logits(part).argmax(dim=1).cpu().numpy() for part in parts])

    best, answers = -1.0, []
    for epoch in range(1 if pilot else EPOCHS):
        model.train()
        for batch in np.array_split(rng.permutation(train), -(-len(train) // BATCH_SIZE)):
            targets = torch.tensor(labels[batch], device=device)
            loss = torch.nn.functional.cross_entropy(logits([texts[i] for i in batch]), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = float(np.mean(predicted([texts[i] for i in held]) == labels[held]))
        progress.append({"epoch": epoch + 1, "held_out_accuracy": accuracy})
        if accuracy <= best:
            break
        best, answers = accuracy, predicted(asked)
    return [int(label) for label in answers]


def write_outputs(out, ids, labels, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    rows = "".join(f"{i},{label}\n" for i, label in zip(ids, labels, strict=True))
    (out / "predictions.tmp").write_text("id,label\n" + rows)
    (out / "predictions.tmp").replace(out / "predictions.csv")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Classify short texts.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    rng = np.random.default_rng(args.seed)
    known = read_texts(args.data / "train" / "texts.csv")
    asked = read_texts(args.data / args.split / "texts.csv")
    labels = np.array([int(row["label"]) for row in known])
    texts, wanted = ([row["text"] for row in rows] for rows in (known, asked))
    pilot, progress = args.budget == "pilot", []
    if METHOD == "bert":
        folder = args.data / "train" / "bert"
        found = by_bert(texts, labels, wanted, pilot, rng, folder, progress)
    else:
        found = by_ngrams(texts, labels, wanted, pilot, rng, progress)
    write_outputs(args.out, [row["id"] for row in asked], found, progress)


if __name__ == "__main__":
    main()
