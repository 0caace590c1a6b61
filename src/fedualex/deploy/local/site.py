"""`python -m fedualex.deploy.local.site FOLDER`: the process of a site. It ends with the server's."""

import logging
import os
import queue
import signal
import socket
import sys
import threading
from pathlib import Path

from ..party import SECURE, read_entry, read_settings, write_log
from ..wire import make_answerer
from .carrier import ADDRESS, Link, introduce
from .keys import key_of_site

log = logging.getLogger("fedualex.deploy.local.site")  # this module is run as __main__


def main(folder: Path) -> None:
    """Answer requests from this folder's data until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which lets its sites finish
    write_log(folder)
    host, _, port = os.environ[ADDRESS].rpartition(":")
    answer = make_answerer(lambda: read_entry(folder)(folder))
    link = Link(socket.create_connection((host, int(port)), timeout=60.0))
    try:
        introduce(link, read_settings(folder)["name"], key_of_site(folder, folder / SECURE))
    except (OSError, EOFError) as error:
        log.error("%s is not let in, as with the key of another kit: %s", folder.name, error)
        raise SystemExit(1) from None
    log.info("connected to %s:%s", host, port)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(link, inbox), daemon=True).start()
    while True:
        link.send(answer(inbox.get()))


def _listen(link: Link, inbox: "queue.SimpleQueue[bytes]") -> None:
    """Requests as they come. Without a server there is nothing to work for, not even at a request that hangs."""
    try:
        while True:
            inbox.put(link.receive())
    except (OSError, EOFError) as error:
        log.info("the server is gone: %s", error)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
