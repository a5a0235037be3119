"""The layers of a protocol: the client half above, the server half below."""
