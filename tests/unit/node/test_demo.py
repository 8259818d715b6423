import asyncio

import pytest

from allotment.node.runtimes.demo import Demo


def test_the_demo_answers_like_the_application_until_its_container_ends() -> None:
    async def story() -> None:
        demo = Demo({"FORCE_CPU": "true", "WIDTH": "40", "HEIGHT": "32"})
        assert (await demo("/healthz")).body == b"ok\n"
        assert (await demo("/image.png")).content_type == "image/png"
        ended = asyncio.create_task(asyncio.sleep(0))
        ended.add_done_callback(demo.end)
        await ended
        await asyncio.sleep(0)
        with pytest.raises(ConnectionResetError):
            await demo("/image.png")

    asyncio.run(story())
