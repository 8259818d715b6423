/** What would help, in order; each can be tried on a copy of the cluster. */

import { useRef, useState } from "preact/hooks";
import { ChangeCommand, Command, ObjectLink, ProblemNote } from "../parts/parts.tsx";
import { Diff } from "../parts/diff.tsx";
import { listed } from "../parts/text.ts";
import { ask, type Problem } from "../server.ts";
import { problemOf } from "../twin.ts";
import type { Answer, Remedy, Trial } from "../types.ts";

export function Remedies({ group, pod, remedies, next }: { group: string; pod: string; remedies: Remedy[]; next: string }) {
  return (
    <section class="remedies" aria-labelledby="remedies-title">
      <h3 id="remedies-title">What would help</h3>
      {remedies.length ? (
        <ol class="remedy-list">
          {remedies.map((remedy, index) => (
            <RemedyRow key={remedy.id} group={group} pod={pod} remedy={remedy} isFirst={index === 0} />
          ))}
        </ol>
      ) : (
        <p>No single change is known to help.</p>
      )}
      {!remedies.length && next && <Command text={next} label="Copy the next command" />}
    </section>
  );
}

function RemedyRow({ group, pod, remedy, isFirst }: { group: string; pod: string; remedy: Remedy; isFirst: boolean }) {
  const [trial, setTrial] = useState<Trial | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isTrying, setIsTrying] = useState(false);
  const abort = useRef<AbortController | null>(null);
  const texts = remedy.texts ?? [];

  async function tryIt(): Promise<void> {
    abort.current?.abort();
    abort.current = new AbortController();
    setIsTrying(true);
    setProblem(null);
    try {
      setTrial(await ask<Trial>("/try", { group, pod, remedy: remedy.id }, abort.current.signal));
    } catch (error) {
      if (!abort.current.signal.aborted) setProblem(problemOf(error));
    }
    setIsTrying(false);
  }

  return (
    <li class="remedy">
      <div class="remedy-head">
        <div class="remedy-texts">
          {texts.map((text, index) => (
            <span key={text}>
              {index > 0 && <span class="soft">and </span>}
              {text}
            </span>
          ))}
        </div>
        {remedy.isTryable && (
          <button type="button" class={isFirst ? "primary" : ""} disabled={isTrying} onClick={tryIt}>
            Try it<span class="unseen">: {texts.join(" and ")}</span>
          </button>
        )}
      </div>
      <div aria-live="polite">
        {problem && <ProblemNote problem={problem} />}
        {trial && <TrialResult trial={trial} />}
      </div>
      {!trial && <ChangeCommand text={remedy.changeCommand} />}
      {remedy.command && <Command text={remedy.command} label="Copy what to wait for" />}
    </li>
  );
}

export function TrialResult({ trial }: { trial: Trial }) {
  const fits = trial.fits === true;
  return (
    <div class={fits ? "trial trial-fits" : "trial trial-refused"}>
      <p class="trial-sentence">
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
          <path d={fits ? "M3 8.5l3.5 3.5L13 4.5" : "M4 4l8 8M12 4l-8 8"} />
        </svg>
        <strong>{fits ? "It fits" : "It still does not fit"}</strong>
        {trial.node && <span>on {trial.node}</span>}
      </p>
      {trial.assumed?.length ? <p class="soft">Assumed: {listed(trial.assumed, 3)}</p> : null}
      {trial.sentence && <p>{trial.sentence}</p>}
      <PlacedClaims answer={{ claims: trial.claims ?? trial.answer?.claims ?? [], node: trial.node ?? "" }} />
      {trial.diff && <Diff text={trial.diff} />}
      <ChangeCommand text={trial.changeCommand} />
    </div>
  );
}

/** The devices that each claim gets. */
export function PlacedClaims({ answer }: { answer: Pick<Answer, "claims" | "node"> }) {
  const claims = answer.claims ?? [];
  if (!claims.length) return null;
  return (
    <ul class="placed">
      {claims.map((claim) => (
        <li key={claim.name}>
          <span class="soft">{claim.name}</span>
          {(claim.devices ?? []).map((device) => (
            <span key={`${device.pool}/${device.device}/${device.request}`} class="placed-device">
              <ObjectLink kind="device" name={`${device.pool ?? ""}/${device.device}`}>
                {device.device}
              </ObjectLink>
              {device.kind && <span class="soft">{device.kind}</span>}
            </span>
          ))}
        </li>
      ))}
    </ul>
  );
}
