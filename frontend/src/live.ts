/** What the server tells while the page is open: a new revision of the cluster, or that the cluster is away. */

import { useEffect, useState } from "preact/hooks";
import { inBrowser } from "./base.ts";

export interface Pulse {
  revision: number;
  connected: boolean;
  seenAt: string;
  error: string;
  /** Whether the server itself answers. */
  isServed: boolean;
}

let pulse: Pulse = { revision: 0, connected: true, seenAt: "", error: "", isServed: true };
const listeners = new Set<(pulse: Pulse) => void>();
/** How long to wait before a refused stream is tried again, in milliseconds. */
const RETRY = 3000;
let source: EventSource | null = null;

function publish(next: Pulse): void {
  pulse = next;
  for (const listener of listeners) listener(pulse);
}

function listen(): void {
  if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
  const stream = new EventSource(inBrowser("/events"));
  source = stream;
  stream.onmessage = (event: MessageEvent<string>) => {
    const message = JSON.parse(event.data) as Partial<Pulse>;
    publish({
      revision: message.revision ?? pulse.revision,
      connected: message.connected ?? true,
      seenAt: message.seenAt ?? "",
      error: message.error ?? "",
      isServed: true,
    });
  };
  stream.onopen = () => {
    if (!pulse.isServed) publish({ ...pulse, isServed: true });
  };
  stream.onerror = () => {
    const isRejected = stream.readyState === EventSource.CLOSED;
    // A server that rejects the request, for example for its token, does respond.
    publish({ ...pulse, isServed: isRejected });
    // The browser does not repeat a request that was rejected.
    if (isRejected) setTimeout(listen, RETRY);
  };
}

// Browsers open six connections to a server at most, for all its pages together: only visible ones keep a stream open.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) source?.close();
  else listen();
});
window.addEventListener("pagehide", () => source?.close());
window.addEventListener("pageshow", listen);

export function usePulse(): Pulse {
  const [seen, setSeen] = useState(pulse);
  useEffect(() => {
    listen();
    listeners.add(setSeen);
    setSeen(pulse);
    return () => void listeners.delete(setSeen);
  }, []);
  return seen;
}
