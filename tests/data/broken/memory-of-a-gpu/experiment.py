from attention import attend


def main():
    for length in (1024, 65536):
        attend(length)


main()
