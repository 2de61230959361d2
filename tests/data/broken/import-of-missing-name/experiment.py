def main():
    from optim.schedules import cosine_schedule

    return cosine_schedule(10)


if __name__ == "__main__":
    main()
