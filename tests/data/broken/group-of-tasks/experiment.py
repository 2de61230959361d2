import asyncio


async def score(size):
    await asyncio.sleep(0)
    return 1 / size


async def main():
    async with asyncio.TaskGroup() as group:
        for size in (0, 0):
            group.create_task(score(size))


asyncio.run(main())
