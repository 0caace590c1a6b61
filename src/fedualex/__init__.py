"""fedualex: federated composite saddle point optimization, with a certificate for every answer.

min_x max_y (1/M) sum_m f_m(x, y) + psi_1(x) - psi_2(y)
"""

import logging

import lazy_loader

# Names are imported when they are first used: the stub beside this file lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Silent unless somebody listens: logging.basicConfig(level="INFO") shows what runs do.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.2.0"
