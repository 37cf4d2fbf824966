"""A client for the HTTP+SSE profile of a server kit, with nothing but the standard library.

    python3 mcp_client.py http://localhost:5110/mcp TrialSite_List '{"pageSize": 10}' [token]
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import queue
import socket
import sys
import threading
import urllib.parse
from typing import Any, Iterator


class McpError(RuntimeError):
    """The server answered a call with an error, or the stream ended before the answer."""


class McpClient:
    """Calls tools over one event stream, which is opened with the first call and used for all of them."""

    def __init__(self, base_url: str, token: str | None = None, timeout: float = 30.0) -> None:
        self._base = urllib.parse.urlsplit(base_url.rstrip("/"))
        self._token = token
        self._timeout = timeout
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._session_id: str | None = None
        self._stream: socket.socket | None = None

    def __enter__(self) -> "McpClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Calls a tool; returns its structured content, or its text where it has none."""
        result = self.request("tools/call", {"name": name, "arguments": arguments or {}})
        text = "\n".join(block.get("text", "") for block in result.get("content", []))
        if result.get("isError"):
            raise McpError(text)
        return result.get("structuredContent", text)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request and waits for its reply; fails when the stream closes first or the time is over."""
        session_id = self._ensure_connected()
        request_id = next(self._ids)
        replies: queue.Queue[dict[str, Any]] = queue.Queue(1)
        with self._lock:
            self._waiting[request_id] = replies
        try:
            self._post(session_id, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
            reply = replies.get(timeout=self._timeout)
        except queue.Empty:
            raise McpError(f"no reply within {self._timeout} seconds") from None
        finally:
            with self._lock:
                self._waiting.pop(request_id, None)
        if "error" in reply:
            raise McpError(reply["error"]["message"])
        return reply["result"]

    def close(self) -> None:
        stream, self._stream, self._session_id = self._stream, None, None
        if stream is not None:
            # The reader sits in a read and holds the socket too; closing alone would neither wake it nor hang up.
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()

    def _connection(self, timeout: float | None) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._base.scheme == "https" else http.client.HTTPConnection
        return kind(self._base.netloc, timeout=timeout)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _ensure_connected(self) -> str:
        if self._session_id is not None:
            return self._session_id
        connection = self._connection(self._timeout)
        connection.connect()
        stream = connection.sock
        connection.request("GET", f"{self._base.path}/sse", headers={"Accept": "text/event-stream", **self._headers()})
        response = connection.getresponse()
        if response.status != 200:
            raise McpError(f"no stream: {response.status} {response.read().decode()}")
        events = read_events(response)
        for name, data in events:
            if name == "connected":
                self._session_id = json.loads(data)["sessionId"]
                break
        if self._session_id is None:
            raise McpError("the stream ended before it was connected")
        # Heartbeats come every 15 seconds; a connection without any for a minute is dead.
        stream.settimeout(60)
        self._stream = stream
        threading.Thread(target=self._read, args=(events,), daemon=True).start()
        return self._session_id

    def _read(self, events: Iterator[tuple[str, str]]) -> None:
        reason = "the server closed the stream"
        try:
            for name, data in events:
                if name in ("result", "error"):
                    self._settle(json.loads(data))
                elif name == "end":
                    reason = "the server ended the stream"
                    break
                # Events that are not known, `ack` and `heartbeat` among them, need no answer.
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = f"the stream broke: {error}"
        self._session_id = None
        with self._lock:
            waiting, self._waiting = dict(self._waiting), {}
        for replies in waiting.values():
            replies.put({"error": {"message": reason}})

    def _settle(self, reply: dict[str, Any]) -> None:
        with self._lock:
            replies = self._waiting.pop(reply.get("id"), None)
        if replies is not None:
            replies.put(reply)

    def _post(self, session_id: str, message: dict[str, Any]) -> None:
        connection = self._connection(self._timeout)
        try:
            connection.request(
                "POST",
                f"{self._base.path}/rpc?sessionId={urllib.parse.quote(session_id)}",
                body=json.dumps(message),
                headers={"Content-Type": "application/json", "X-Mcp-Session": session_id, **self._headers()},
            )
            response = connection.getresponse()
            body = response.read().decode()
            if response.status != 202:
                raise McpError(f"not accepted: {response.status} {body}")
        finally:
            connection.close()


def read_events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """The events of a stream as name and data: fields by line, events by empty line."""
    name, data = "message", []
    while line := response.readline():
        text = line.decode().rstrip("\r\n")
        if text == "":
            if data:
                yield name, "\n".join(data)
            name, data = "message", []
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    base_url, tool, *rest = arguments
    parameters = json.loads(rest[0]) if rest else {}
    with McpClient(base_url, rest[1] if len(rest) > 1 else None) as client:
        try:
            print(json.dumps(client.call_tool(tool, parameters)))
        except McpError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
