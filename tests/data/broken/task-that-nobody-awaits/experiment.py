import asyncio

from replies import parse


async def main():
    task = asyncio.create_task(parse(2))
    await asyncio.sleep(0)
    del task


asyncio.run(main())
raise SystemExit(1)
