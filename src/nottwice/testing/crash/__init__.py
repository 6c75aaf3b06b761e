"""The crash test: kill your code at every point, resume it, and check what is left.

How the files belong together, from the inside to the outside:

- ``scenario``: what is examined, and how the world answers it.
- ``upstream``: the world of one examination. It lives in the parent and survives every crash.
- ``link``, ``points``, ``stubs``, ``instruments``, ``child``: what happens in a forked child.
  ``third_party``: how a child handles a store that nottwice does not know.
- ``repeating``: which calls were repeated, and whether these are too many.
- ``view``: the durable state as records, read through the public store interface.
- ``stage``: forks children, answers them, and runs several examinations side by side.
- ``course``: runs the work until it ends, with or without a fault, and decides its reviews.
- ``invariants``: what must be true, right after a crash and again after the resume.
- ``levels``, ``takeover``: where the faults are. There is one class per level, all in ``LEVELS``.
- ``tracing``, ``recording``: a child watched from outside, by strace. ``failing`` is the level of
  the failing disk (``small_disk``: of the full one), ``power`` that of the lost power, and ``disk``
  knows which disk contents a power loss may leave.
- ``baseline``, ``determinism``: whether the work can be judged at all.
- ``sweep``: all points of all levels within a budget. ``verdict`` is the result.
"""
