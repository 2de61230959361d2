import hydra

from training import fit


@hydra.main(version_base=None, config_path="conf", config_name="base")
def main(config):
    fit(config)


if __name__ == "__main__":
    main()
