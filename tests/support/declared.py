"""Which classes of ours there are below a base, and what they say of themselves."""


def concrete(base):
    """The final classes of ours below this one: those that an instance can be made of."""
    found = [cls for sub in base.__subclasses__() for cls in (concrete(sub) or [sub])]
    ours = (cls for cls in found if cls.__module__.startswith("fedualex."))
    return sorted({cls for cls in ours if not cls.__abstractmethods__}, key=lambda cls: cls.__name__)


def declares(cls, base, name):
    """Whether a class, or one between it and its base, says this itself instead of leaving it to the base."""
    between = cls.__mro__[: cls.__mro__.index(base)]
    return any(name in vars(one) for one in between)
