import asyncio


async def ask(number):
    await asyncio.sleep(0)
    return await reply(asyncio.get_running_loop().create_future(), number)


async def reply(future, number):
    return future.result() + number
