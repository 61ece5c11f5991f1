# What scripts of an agent do with Python. It says "ok" if all of it works.
import asyncio, multiprocessing, os, shutil, socket, ssl, subprocess, tempfile, threading


def double(n):
    return 2 * n


async def sleepers():
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    process = await asyncio.create_subprocess_exec("true")
    return await process.wait()


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        assert pool.map(double, [1, 2]) == [2, 4]
    assert asyncio.run(sleepers()) == 0
    thread = threading.Thread(target=ssl.create_default_context)
    thread.start()
    thread.join()
    with tempfile.TemporaryDirectory() as d:
        shutil.copy2(__file__, d)
        os.chmod(os.path.join(d, os.path.basename(__file__)), 0o700)
    assert subprocess.run(["cat"], input=b"x", capture_output=True, check=True).stdout == b"x"
    a, b = socket.socketpair()
    a.sendall(b"x")
    assert b.recv(1) == b"x"
    print("ok")
