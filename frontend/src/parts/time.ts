/** How long ago something was, as kubectl writes it: `45s`, `12m`, `3h20m`, `5d`. */

import { useEffect, useState } from "preact/hooks";

export function ageText(from: string | undefined, now: number): string {
  const then = Date.parse(from ?? "");
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** The present, read again every `interval` milliseconds. */
export function useNow(interval = 10_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}

export function localTime(time: string | undefined): string {
  const then = new Date(time ?? "");
  return Number.isNaN(then.getTime()) ? (time ?? "") : then.toLocaleString();
}
