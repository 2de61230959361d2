def main():
    from models import net

    return net.build()


main()
