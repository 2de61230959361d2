from folds import run


def main():
    for fold in range(5):
        run(fold)


main()
