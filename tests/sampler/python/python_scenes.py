# SPDX-License-Identifier: Apache-2.0
# Threads that stand still in known places, and what Python itself says where that is.
#
# Prints, once all stand still, for each thread a line "thread TID NAME" and its frames, innermost
# first, as "frame HEX(function) HEX(file) LINE", then "end"; and stands still itself.
import asyncio
import contextlib
import functools
import os
import sys
import threading
import time
import types

SCENES = []


def scene(function):
    SCENES.append(function)
    return function


def stand():
    time.sleep(600)


def outer(depth):
    def inner(depth):
        if depth == 0:
            time.sleep(600)
        return outer(depth - 1)
    return inner(depth)


@scene
def nested():
    outer(3)


class Shape:
    class Part:
        def turn(self):
            self.twist(angle=1)

        @staticmethod
        def twist(angle):
            Shape.build()

    @classmethod
    def build(cls):
        cls.Other().value

    class Other:
        @property
        def value(self):
            time.sleep(600)


@scene
def classes():
    Shape.Part().turn()


def numbers():
    yield 1
    yield from more_numbers()


def more_numbers():
    for i in range(3):
        yield (yield_one(i))


def yield_one(i):
    if i == 2:
        time.sleep(600)
    return i


@scene
def generators():
    total = 0
    for n in numbers():
        total += n


async def leaf_coroutine():
    async with AsyncPlace():
        pass


class AsyncPlace:
    async def __aenter__(self):
        time.sleep(600)

    async def __aexit__(self, *args):
        pass


async def async_numbers():
    for i in range(2):
        await asyncio.sleep(0)
        yield i
    await leaf_coroutine()


@scene
def coroutines():
    async def main():
        async for _ in async_numbers():
            pass
    asyncio.run(main())


@scene
def lambdas():
    step = lambda f: f()
    step(lambda: step(
        lambda:
        time.sleep(600)))


@scene
def comprehensions():
    return [{k: v for k in [1]
             for v in (stand() for _ in "a")}
            for x in [1]]


def noisy(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        kwargs.setdefault("c", 3)
        return function(*args, **kwargs)
    return wrapper


@noisy
@functools.lru_cache(maxsize=None)
def decorated_function(a, b=2, *, c):
    stand()


@scene
def decorated():
    decorated_function(1)


@scene
def many_lines():
    result = max(
        1,
        2,
        (lambda a,
                b: time.sleep(
                    600
                ))(
            3,
            4),
    )
    return result


class Operand:
    def __init__(self, deep=False):
        if deep:
            self + self

    def __add__(self, other):
        return self[other]

    def __getitem__(self, key):
        for _ in self:
            pass

    def __iter__(self):
        return self

    def __next__(self):
        return self.missing

    def __getattr__(self, name):
        time.sleep(600)


@scene
def operators():
    Operand(deep=True)


@contextlib.contextmanager
def managed():
    try:
        yield
    finally:
        stand()


@scene
def with_blocks():
    try:
        with managed():
            raise ValueError
    except ValueError:
        pass


@scene
def lock_in_with():
    lock = threading.Lock()
    lock.acquire()
    with lock:
        pass


@scene
def handlers():
    try:
        1 / 0
    except ZeroDivisionError:
        try:
            {}["a"]
        finally:
            stand()


@scene
def callbacks():
    def key(x):
        return functools.reduce(lambda a, b: stand(), [x, x])
    return list(map(lambda x: sorted([x], key=key), [1]))


@scene
def class_body():
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)

        def __new__(mcls, name, bases, names):
            made = super().__new__(mcls, name, bases, names)
            made()
            return made

    class Made(metaclass=Meta):
        x = 1

        def __init__(self):
            stand()


@scene
def deep():
    def down(n):
        if n:
            down(n - 1)
        stand()
    down(300)


def weird(name, file):
    code = compile("def f(go):\n\n  go()\n", file, "exec")
    names = {}
    exec(code, names)
    function = names["f"]
    changes = {"co_name": name}
    if sys.version_info >= (3, 11):
        changes["co_qualname"] = name
    return types.FunctionType(function.__code__.replace(**changes), names)


@scene
def weird_names():
    # Latin 1, two bytes, four bytes, a lone surrogate, control characters, long ones, none.
    calls = [weird(name, file) for name, file in [
        ("caf\xe9", "\xe9.py"), ("\u03bb", "/\u4e2d\u6587.py"), ("\U0001d4d0\u03bb", "<\U0001f40d>"),
        ("a\ud800b", "f"), ("tab\t\n\x01", "g\nh"), ("long" * 500, "x" * 1023 + "\xe9.py"),
        ("", ""), ("\U0001d4d0" * 300, "/" + "\u4e2d" * 500)]]

    def run(i):
        if i == len(calls):
            stand()
        calls[i](lambda: run(i + 1))
    run(0)


@scene
def executed():
    exec("\n\n\nstand()", {"stand": stand})


@scene
def imports():
    import python_scene_module  # noqa: F401


def text(value):
    return value.encode("utf-8", "replace").hex() or "-"


def dump():
    own = threading.get_ident()
    frames = sys._current_frames()
    names = {t.ident: t for t in threading.enumerate()}
    for ident, frame in frames.items():
        if ident == own:
            continue
        thread = names[ident]
        print("thread", thread.native_id, thread.name)
        while frame is not None:
            code = frame.f_code
            print("frame", text(getattr(code, "co_qualname", code.co_name)),
                  text(code.co_filename), frame.f_lineno or 0)
            frame = frame.f_back
    print("end", flush=True)
    time.sleep(600)


def standing_still():
    """Waits until every thread has been at the same place for a while."""
    def places():
        return {i: (f.f_code, f.f_lasti) for i, f in sys._current_frames().items()
                if i != threading.get_ident()}
    same_since, before = time.monotonic(), places()
    while time.monotonic() - same_since < 0.5:
        time.sleep(0.05)
        now = places()
        if now != before:
            same_since, before = time.monotonic(), now


def watcher():
    standing_still()
    dump()


sys.path.insert(0, sys.argv[1])
for function in SCENES:
    threading.Thread(target=function, name=function.__name__, daemon=True).start()
threading.Thread(target=watcher, name="watcher", daemon=True).start()
time.sleep(600)
