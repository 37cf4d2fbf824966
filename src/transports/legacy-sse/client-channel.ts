import type { ServerResponse } from "node:http";
import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../exchange.ts";
import { encodeSseEvent, encodeSseMessage } from "../../protocol/sse-encoder.ts";
import { SseResponse } from "../http/sse-response.ts";
import type { SseResponseOptions } from "../http/sse-response.ts";
import type { Channel, ChannelEvents } from "../transport.ts";

/** What the channel to a client is made of. */
export interface SseClientChannelOptions {
  readonly incarnation: string;
  readonly stream: SseResponseOptions;
  readonly setTimer: SetTimer;
  /** Called once when the channel is over, before anybody else hears of it. */
  readonly onOver: () => void;
}

/** The channel to one client of the HTTP+SSE transport, which carries nothing until it is opened. */
export interface SseClientChannel extends Channel {
  /** Whether the client has gone or the channel was closed. */
  readonly isOver: boolean;
  /** Begins the event stream with the endpoint; the end of the channel is reported, also where it is over already. */
  open(endpoint: string, events: ChannelEvents): void;
}

/** How long a closed stream may take to deliver what is still queued. */
const graceMs = 2000;

/** Makes a channel that writes messages as events on a response. The end of the response is the end of the channel. */
export function createSseClientChannel(
  response: ServerResponse,
  options: SseClientChannelOptions,
): SseClientChannel {
  const { incarnation, setTimer, onOver } = options;
  let stream: SseResponse | undefined;
  let events: ChannelEvents | undefined;
  let over: GatewayError | undefined;

  function end(error: GatewayError): GatewayError {
    if (over !== undefined) return over;
    over = error;
    onOver();
    events?.closed(error);
    return error;
  }

  const closed = new Promise<void>((resolve) => {
    response.on("close", () => {
      end(new GatewayError("cancelled", "the client closed its event stream"));
      resolve();
    });
  });

  async function delivered(): Promise<void> {
    const stopTimer = setTimer(graceMs, () => {
      response.destroy();
    });
    await closed;
    stopTimer();
  }

  return {
    incarnation,
    get isOver() {
      return over !== undefined;
    },
    open(endpoint, receiver) {
      events = receiver;
      if (over !== undefined) {
        response.destroy();
        receiver.closed(over);
        return;
      }
      stream = new SseResponse(response, options.stream);
      const first = encodeSseEvent({ event: "endpoint", data: endpoint });
      if (first.ok) void stream.write(first.bytes);
    },
    send(message) {
      if (over !== undefined) return Promise.reject(over);
      if (stream === undefined) {
        return Promise.reject(new GatewayError("internal", "the event stream to the client is not open yet"));
      }
      const written = stream.write(encodeSseMessage(message));
      if (stream.isOpen) return written;
      return Promise.reject(
        end(new GatewayError("overloaded", "the client does not read its messages and was cut off")),
      );
    },
    async close(reason) {
      end(new GatewayError("cancelled", `the connection was closed: ${reason}`));
      if (stream === undefined || response.destroyed) return;
      stream.end();
      await delivered();
    },
  };
}
