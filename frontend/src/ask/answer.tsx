/** The answer to a manifest: what is wrong with it, what each pod gets or why it gets nothing, or what to buy. */

import { Code, Command, IsHere } from "../parts/parts.tsx";
import { counted, dollars } from "../parts/text.ts";
import { NearestMiss } from "../pending/detail.tsx";
import { PlacedClaims } from "../pending/remedies.tsx";
import { Funnels } from "../pending/funnel.tsx";
import type { Answer, AskAnswer, Finding, Funnel, Plan } from "../types.ts";

export function AskResult({
  answer,
  isHere,
  onFix,
  onGo,
}: {
  answer: AskAnswer;
  isHere: boolean;
  onFix: (finding: Finding) => void;
  onGo: (line: number, column: number) => void;
}) {
  const findings = answer.check?.findings ?? [];
  return (
    <IsHere.Provider value={isHere}>
      {(answer.problems ?? []).map((problem) => (
        <div class="problem" role="alert" key={problem.message}>
          <strong>The manifest cannot be read</strong>
          <p>
            {problem.message}{" "}
            {problem.line ? (
              <button type="button" class="link" onClick={() => onGo(problem.line ?? 1, problem.column ?? 1)}>
                line {problem.line}
              </button>
            ) : null}
          </p>
        </div>
      ))}
      {answer.explanation?.answers?.map((one) => (
        <AnswerCard key={`${one.kind} ${one.name}`} answer={one} />
      ))}
      {answer.explanation?.notes?.map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
      {answer.plan && <PlanCard plan={answer.plan} />}
      {findings.length > 0 && (
        <section aria-labelledby="findings-title">
          <h2 id="findings-title">{counted(findings.length, "finding")} in the manifest</h2>
          <ul class="findings">
            {findings.map((finding, index) => (
              <li key={index} class={`finding finding-${finding.level}`}>
                <p>
                  <Code>{finding.code}</Code> {finding.message}
                  {finding.help && <span class="soft"> {finding.help}</span>}
                </p>
                <p class="finding-tools">
                  <button type="button" class="link" onClick={() => onGo(finding.line, finding.column)}>
                    line {finding.line}
                  </button>
                  {finding.subject && <span class="soft">{finding.subject}</span>}
                  {finding.fix && (
                    <button type="button" onClick={() => onFix(finding)}>
                      Fix: {finding.fix.text}
                      {finding.fix.safe === false && <span class="soft"> (a guess)</span>}
                    </button>
                  )}
                </p>
              </li>
            ))}
          </ul>
        </section>
      )}
    </IsHere.Provider>
  );
}

export function funnelsOf(answer: Answer): Funnel[] {
  return (answer.reasons?.nodes ?? []).flatMap(({ nodes, refused }) =>
    (refused.funnels ?? []).map((funnel) => ({ ...funnel, nodes })),
  );
}

export function AnswerCard({ answer }: { answer: Answer }) {
  const fits = answer.outcome === "fits";
  const headline = answer.reasons?.headline;
  return (
    <section class={`answer ${fits ? "answer-fits" : "answer-refused"}`}>
      <h2>
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
          <path d={fits ? "M3 8.5l3.5 3.5L13 4.5" : "M4 4l8 8M12 4l-8 8"} />
        </svg>
        <span>
          {answer.kind} {answer.name}{" "}
          {fits ? <>fits{answer.node && ` on ${answer.node}`}</> : answer.outcome === "unprepared" ? "cannot start" : "does not fit"}
        </span>
      </h2>
      {headline && (
        <p class="answer-cause">
          {headline.summary} <Code>{headline.code}</Code>
        </p>
      )}
      {answer.waits && <p>{answer.waits}</p>}
      <PlacedClaims answer={answer} />
      {headline?.changes?.length ? (
        <>
          <h3>What would help</h3>
          <ol class="changes">
            <li>{headline.changes.map((change) => change.text).join(", and ")}</li>
            {(headline.otherwise ?? []).map((change) => (
              <li key={change.text}>or {change.text}</li>
            ))}
          </ol>
        </>
      ) : null}
      {!fits && <Funnels funnels={funnelsOf(answer)} answer={answer} />}
      {headline?.nearest && <NearestMiss nearest={headline.nearest} />}
      {answer.notes?.map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
      {!fits && answer.next && isForCluster(answer.next) && <Command text={answer.next} label="Copy the next command" />}
    </section>
  );
}

export function PlanCard({ plan }: { plan: Plan }) {
  const counts = new Map<string, { count: number; price: number }>();
  for (const { instance = "machine", usdPerHour } of plan.machines ?? []) {
    const found = counts.get(instance) ?? { count: 0, price: Number(usdPerHour ?? 0) };
    counts.set(instance, { ...found, count: found.count + 1 });
  }
  return (
    <section class="answer">
      <h2>Plan: {plan.verdict}</h2>
      {counts.size > 0 && (
        <table class="amounts">
          <thead>
            <tr>
              <th scope="col">Machine</th>
              <th scope="col" class="number">
                Count
              </th>
              <th scope="col" class="number">
                USD/h each
              </th>
            </tr>
          </thead>
          <tbody>
            {[...counts].map(([name, { count, price }]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">{count}</td>
                <td class="number">{dollars(price)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {plan.bound !== undefined && (
        <p class="soft">No set of machines in the catalog costs less than {dollars(plan.bound)} USD/h.</p>
      )}
    </section>
  );
}

/** Whether a command reaches no cluster but that of the answer: kubectl without a context uses the current one. */
function isForCluster(command: string): boolean {
  return !/\bkubectl\b/.test(command) || /\bkubectl --context /.test(command);
}
