"""The crash test: kill somebody's code at every point it has, resume it, and look what is left.

How the files belong together, from the inside to the outside:

- ``scenario``: what is examined, and how the world answers it.
- ``upstream``: the world of one examination; it lives in the parent and survives every crash.
- ``link``, ``points``, ``stubs``, ``instruments``, ``child``: what happens in a forked child;
  ``third_party``: what becomes of a store in it that nottwice does not know.
- ``repeating``: which calls were made again, and whether those are too many.
- ``view``: the durable state as records, read through the public store interface.
- ``stage``: forks children, answers them, and runs several examinations side by side.
- ``course``: living through the work, with a fault or without, until it ends; the people in it.
- ``invariants``: what must be true, right after a crash and again after the resume.
- ``levels``, ``takeover``: where the faults are; one class per level, all in ``LEVELS``.
- ``tracing``, ``recording``: a child watched from outside, by strace; ``failing`` is the level of
  the failing disk (``small_disk``: of the full one), ``power`` that of the lost power, and ``disk``
  knows which disks that may leave.
- ``baseline``, ``determinism``: whether the work can be judged at all.
- ``sweep``: all points of all levels within a budget; ``verdict`` is what comes of it.
"""
