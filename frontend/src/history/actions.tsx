/** What can be done to a lab: apply, delete, faults of devices. On a real cluster nothing of this is shown. */

import { useState } from "preact/hooks";
import { namespaced } from "../address.ts";
import { ProblemNote } from "../parts/parts.tsx";
import { ask, type Problem } from "../server.ts";
import { problemOf } from "../twin.ts";

interface Done {
  sentences?: string[];
}

export function useAction(): {
  run: (path: string, body: unknown) => Promise<boolean>;
  sentences: string[];
  problem: Problem | null;
  isRunning: boolean;
} {
  const [sentences, setSentences] = useState<string[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isRunning, setIsRunning] = useState(false);
  return {
    sentences,
    problem,
    isRunning,
    async run(path, body) {
      setIsRunning(true);
      setProblem(null);
      setSentences([]);
      try {
        setSentences((await ask<Done>(path, body)).sentences ?? ["Done."]);
        return true;
      } catch (error) {
        setProblem(problemOf(error));
        return false;
      } finally {
        setIsRunning(false);
      }
    },
  };
}

export function Told({ sentences, problem }: { sentences: string[]; problem: Problem | null }) {
  return (
    <div role="status" class="action-told">
      {problem && <ProblemNote problem={problem} />}
      {sentences.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
    </div>
  );
}

const KINDS: Record<string, string> = {
  pod: "pod",
  node: "node",
  claim: "resourceclaim",
  template: "resourceclaimtemplate",
  class: "deviceclass",
  slice: "resourceslice",
};

/** The object as the API names it; null for what is no object. The name of a workload is `Deployment/web`. */
function deletable(kind: string, name: string): { kind: string; name: string } | null {
  if (kind === "workload") {
    const { namespace: type, name: own } = namespaced(name);
    return { kind: type.toLowerCase(), name: own };
  }
  const known = KINDS[kind];
  return known ? { kind: known, name } : null;
}

/** Deletes after a second press: what is deleted is gone. */
export function DeleteButton({ kind, namespace, name }: { kind: string; namespace: string; name: string }) {
  const action = useAction();
  const target = deletable(kind, name);
  const [isSure, setIsSure] = useState(false);
  if (!target) return null;
  return (
    <>
      <button
        type="button"
        class={isSure ? "danger" : ""}
        disabled={action.isRunning}
        onBlur={() => setIsSure(false)}
        onClick={() => {
          if (isSure) void action.run("/lab/delete", { ...target, namespace });
          setIsSure(!isSure);
        }}
      >
        {isSure ? `Delete ${name} for good` : "Delete"}
      </button>
      <Told {...action} />
    </>
  );
}

export function FaultButtons({ kind, name }: { kind: string; name: string }) {
  const action = useAction();
  const isDevice = kind.toLowerCase() === "device";
  if (!isDevice && kind.toLowerCase() !== "node") return null;
  const fault = (verb: string, value = "") => void action.run("/lab/fault", { action: verb, target: name, value });
  return (
    <>
      {isDevice && (
        <>
          <button type="button" disabled={action.isRunning} onClick={() => fault("unplug")}>
            Unplug
          </button>
          <button type="button" disabled={action.isRunning} onClick={() => fault("plug")}>
            Plug in again
          </button>
        </>
      )}
      <button type="button" disabled={action.isRunning} onClick={() => fault("taint", "example.com/fault=true:NoExecute")}>
        Taint
      </button>
      <button type="button" disabled={action.isRunning} onClick={() => fault("untaint", "example.com/fault=true:NoExecute")}>
        Remove the taint
      </button>
      <Told {...action} />
    </>
  );
}
