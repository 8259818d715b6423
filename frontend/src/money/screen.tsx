/** Money: what the hardware costs an hour, who holds it, what is idle, and what the plan would buy. */

import { useAddress, withQuery } from "../address.ts";
import { Code, Empty, ProblemNote, Share, Waiting } from "../parts/parts.tsx";
import { counted, dollars } from "../parts/text.ts";
import { Notes, ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { MoneyRow, MoneyScreen as MoneyAnswer, PlannedCost } from "../types.ts";
import { machineText } from "../whatif/screen.tsx";

export function MoneyScreen() {
  const address = useAddress();
  const isPlanned = address.query.get("plan") === "true";
  const { value, problem, isStale } = useTwin<MoneyAnswer>(isPlanned ? "/money?plan=true" : "/money");
  useClusterHeader(value?.cluster);
  if (!value) return <Unanswered title="Money" what="prices" problem={problem} />;
  const total = value.perHour ?? 0;
  const allocated = value.allocated ?? 0;
  const idle = value.idle ?? null;
  const held = value.devicesHeld ?? 0;
  const free = value.devicesFree ?? 0;
  const isPriced = value.nodesPriced !== undefined || total > 0;
  return (
    <>
      <ScreenHead title="Money" command={value.command}>
        List prices of the hardware, in {value.currency ?? "USD"} per hour.
      </ScreenHead>
      {problem && <ProblemNote problem={problem} />}
      <Notes notes={value.cluster.notes} />
      {isPriced && (
        <ul class="figures">
          <li class="figure">
            <strong>{dollars(total)}</strong>
            <span>all devices, per hour</span>
          </li>
          <li class="figure">
            <strong>{dollars(allocated)}</strong>
            <span>{total > 0 ? `held by claims, ${Math.round((100 * allocated) / total)} %` : "held by claims"}</span>
          </li>
          {idle !== null && (
            <li class="figure">
              <strong>{dollars(idle)}</strong>
              <span>held by nobody</span>
            </li>
          )}
        </ul>
      )}
      {!isPriced && held + free > 0 && (
        <ul class="figures">
          <li class="figure">
            <strong>{held.toLocaleString("en")}</strong>
            <span>{held === 1 ? "device" : "devices"} held by claims</span>
          </li>
          <li class="figure">
            <strong>{free.toLocaleString("en")}</strong>
            <span>free</span>
          </li>
        </ul>
      )}
      {value.unpriced?.length ? (
        <p class="note">
          No price is known for {counted(value.nodesUnpriced ?? 0, "node")} with {value.unpriced.join(", ")}.{" "}
          {value.unpricedTypes?.length ? (
            <>
              To state one, start with <code>--catalog own.csv</code>, a file with a row for instance type{" "}
              {value.unpricedTypes.join(", ")}:{" "}
              <code>provider,instance_type,gpu_count,gpu,on_demand_usd_per_hour</code>
            </>
          ) : (
            <>
              Prices are found by the label <code>node.kubernetes.io/instance-type</code>, which these nodes do not have.
            </>
          )}
        </p>
      ) : null}
      {!value.byProduct?.length && !isPriced && <Empty title="There are no devices" />}
      <div class="columns">
        <Amounts title="By namespace" rows={value.byNamespace ?? []} />
        <Amounts title="By workload" rows={value.byWorkload ?? []} />
        <Amounts title="By product" rows={value.byProduct ?? []} />
      </div>
      {value.plan ? (
        <PlanPicture plan={value.plan} />
      ) : (
        <section class="plan" aria-labelledby="plan-title">
          <h2 id="plan-title">For what is pending</h2>
          {isPlanned && isStale ? (
            <Waiting what="the catalog" />
          ) : (
            <p>
              <a href={withQuery({ plan: "true" }, address)}>Plan the cheapest machines</a>
              <span class="soft"> for the pods that are pending; this takes seconds.</span>
            </p>
          )}
        </section>
      )}
    </>
  );
}

const MOST = 12;

function Amounts({ title, rows }: { title: string; rows: MoneyRow[] }) {
  if (!rows.length) return null;
  const sorted = [...rows].sort((a, b) => (b.perHour ?? -1) - (a.perHour ?? -1));
  const most = sorted[0]?.perHour ?? 0;
  const rest = sorted.slice(MOST);
  const isPriced = rows.some((row) => row.perHour != null);
  return (
    <section>
      <table class="amounts">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">
              Devices
            </th>
            {isPriced && (
              <th scope="col" class="number">
                USD/h
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, MOST).map((row) => (
            <tr key={row.name}>
              <th scope="row">
                <span class="amount-name" title={row.name}>
                  {row.name}
                </span>
                {row.perHour != null && <Share of={row.perHour} total={most} />}
              </th>
              <td class="number">{(row.devices ?? 0).toLocaleString("en")}</td>
              {isPriced && <td class="number">{row.perHour == null ? "?" : dollars(row.perHour)}</td>}
            </tr>
          ))}
        </tbody>
        {rest.length > 0 && (
          <tfoot>
            <tr>
              <th scope="row">{rest.length} more</th>
              <td class="number">{rest.reduce((sum, row) => sum + (row.devices ?? 0), 0).toLocaleString("en")}</td>
              {isPriced && <td class="number">{dollars(rest.reduce((sum, row) => sum + (row.perHour ?? 0), 0))}</td>}
            </tr>
          </tfoot>
        )}
      </table>
    </section>
  );
}

function PlanPicture({ plan }: { plan: PlannedCost }) {
  const price = Number(plan.usdPerHour ?? 0);
  const bound = Number(plan.bound ?? 0);
  const scale = Math.max(price, bound, 0.01) * 1.05;
  const machines = (plan.machines ?? []).reduce((sum, { count = 1 }) => sum + count, 0);
  return (
    <section class="plan" aria-labelledby="plan-title">
      <h2 id="plan-title">For what is pending</h2>
      <p>
        {plan.verdict ? <strong>{plan.verdict}</strong> : <strong>{counted(machines, "machine")}</strong>}
        {plan.bound != null && <> No set of machines in the catalog costs less than {dollars(bound)} USD/h.</>}
      </p>
      {price > 0 && (
        <svg
          class="plan-bar"
          viewBox="0 0 400 26"
          preserveAspectRatio="none"
          role="img"
          aria-label={`Plan ${dollars(price)} USD per hour${plan.bound != null ? `, bound ${dollars(bound)}` : ""}`}
        >
          <rect class="share-all" y="6" width="400" height="14" />
          <rect class="plan-price" y="6" width={(400 * price) / scale} height="14" />
          {plan.bound != null && <rect class="plan-bound" x={Math.max(0, (400 * bound) / scale - 1)} y="0" width="2" height="26" />}
        </svg>
      )}
      <ul class="rows">
        {(plan.machines ?? []).slice(0, 20).map((machine, index) => (
          <li key={index}>{machineText(machine)}</li>
        ))}
      </ul>
      {plan.unserved?.length ? (
        <>
          <h3>Not served by any machine</h3>
          <ul class="rows">
            {plan.unserved.slice(0, 20).map(({ pod, code, text }) => (
              <li key={pod}>
                {pod} {text} {code && <Code>{code}</Code>}
              </li>
            ))}
          </ul>
        </>
      ) : null}
      {plan.relaxations?.length ? (
        <>
          <h3>With one requirement less</h3>
          <ul class="rows">
            {plan.relaxations.map(({ what, total, saves }) => (
              <li key={what}>
                {what}: {dollars(total)} USD/h{saves && <span class="soft">, {dollars(saves)} less</span>}
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </section>
  );
}
