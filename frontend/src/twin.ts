/** The JSON twin of a screen, read again when the cluster changes. The last one stays on the screen meanwhile. */

import { useEffect, useRef, useState } from "preact/hooks";
import { usePulse } from "./live.ts";
import { type Problem, ServerProblem, twin } from "./server.ts";
import type { Screen } from "./types.ts";

export interface Twin<T> {
  value: T | null;
  problem: Problem | null;
  /** Whether the value belongs to an address that was shown before this one. */
  isStale: boolean;
}

/** The shortest time between two readings in milliseconds, however fast the cluster changes. */
const PAUSE = 100;

export function problemOf(error: unknown): Problem {
  if (error instanceof ServerProblem) return error.problem;
  return { title: "The page cannot show this answer", detail: String(error), hint: "", status: 0 };
}

interface Parts<T, Answer> {
  /** The address of what changed since a value. */
  since: (value: T) => string;
  /** The value after an answer; null: before the first one. */
  merge: (value: T | null, answer: Answer) => T;
}

/** Reads a path again and again, once at a time; changes that arrive during a reading cause one more. */
function reader<T extends Screen, Answer>(path: string, parts: Parts<T, Answer> | undefined, show: (twin: Twin<T>) => void) {
  const abort = new AbortController();
  let value: T | null = null;
  let isReading = false;
  let isWanted = false;
  /** The revision that the server told; an answer with it, or with a later one, need not be read again. */
  let told = -1;

  async function readOnce(): Promise<void> {
    try {
      if (parts) value = parts.merge(value, await twin<Answer>(value ? parts.since(value) : path, abort.signal));
      else value = await twin<T>(path, abort.signal);
      show({ value, problem: null, isStale: false });
    } catch (error) {
      if (abort.signal.aborted) return;
      const problem = problemOf(error);
      // A server that does not answer is told by the banner; the last answer stays.
      show({ value, problem: value && problem.status === 0 ? null : problem, isStale: false });
    }
  }

  return {
    async read(revision = -1): Promise<void> {
      told = revision;
      isWanted = true;
      if (isReading) return;
      isReading = true;
      while (isWanted && !abort.signal.aborted && !document.hidden) {
        isWanted = false;
        const begin = performance.now();
        await readOnce();
        if (isWanted && told >= 0 && (value?.cluster.revision ?? -1) >= told) break;
        if (isWanted) await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE, 2 * (performance.now() - begin))));
      }
      isReading = false;
    },
    revision: () => value?.cluster.revision ?? -1,
    stop: () => abort.abort(),
  };
}

/** The twin of a path, or nothing for an empty one. */
export function useTwin<T extends Screen, Answer = T>(path: string, parts?: Parts<T, Answer>): Twin<T> {
  const pulse = usePulse();
  const [state, setState] = useState<Twin<T>>({ value: null, problem: null, isStale: false });
  const current = useRef<ReturnType<typeof reader<T, Answer>> | null>(null);

  useEffect(() => {
    if (!path) return undefined;
    setState((last) => ({ value: last.value, problem: null, isStale: true }));
    const made = reader<T, Answer>(path, parts, setState);
    current.current = made;
    void made.read();
    const onReturn = () => void (document.hidden || made.read());
    document.addEventListener("visibilitychange", onReturn);
    return () => {
      document.removeEventListener("visibilitychange", onReturn);
      made.stop();
    };
  }, [path]);

  const told = useRef(pulse);
  useEffect(() => {
    const isNew = pulse.revision !== told.current.revision || pulse.isServed !== told.current.isServed;
    const isAway = !pulse.isServed;
    told.current = pulse;
    if (isNew && !isAway && current.current && current.current.revision() !== pulse.revision)
      void current.current.read(pulse.revision);
  }, [pulse.revision, pulse.isServed]);
  return state;
}
