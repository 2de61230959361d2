import asyncio

from client import ask


async def main():
    return await asyncio.gather(ask(1), ask(2))


asyncio.run(main())
