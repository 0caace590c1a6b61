"""Messages as Flower's records: bytes that it does not look into, and a ticket."""

from flwr.app import ConfigRecord, RecordDict

RECORD = "fedualex"


def pack(message: bytes, ticket: str) -> RecordDict:
    """A message to one site, or its answer. A request's ticket is known to its addressee alone, who repeats it."""
    return RecordDict({RECORD: ConfigRecord({"message": message, "ticket": ticket})})


def unpack(content: RecordDict) -> tuple[bytes, str]:
    """A message and its ticket."""
    record = content.config_records[RECORD]
    message, ticket = record["message"], record["ticket"]
    if not isinstance(message, bytes) or not isinstance(ticket, str):
        raise TypeError("a record of fedualex holds bytes and a ticket")
    return message, ticket
