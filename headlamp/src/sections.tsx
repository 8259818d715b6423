// The sections on Headlamp's pages. Texts are Allotment's own sentences; React escapes them.
import { Link, NameValueTable, SectionBox, SimpleTable } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Typography } from '@mui/material';
import { ReactNode } from 'react';
import { Cause, Device, DeviceMap, devicesOf, ObjectPage, path, Reference, useTwin } from './answers';

/** The kinds that own pods. */
const WORKLOADS = ['CronJob', 'DaemonSet', 'Deployment', 'Job', 'ReplicaSet', 'StatefulSet'];

/** The name of the page of a claim: Headlamp has none. */
export const CLAIM_ROUTE = 'allotment-claim';

/** The section on the page of an object; null for kinds that have nothing to do with devices. */
export function sectionOf(kind: string, namespace: string | undefined, name: string): ReactNode {
  if (kind === 'Pod') return <WhyPending page={path('objects', 'pod', namespace, name)} />;
  if (WORKLOADS.includes(kind)) {
    return <WhyPending page={path('objects', 'workload', namespace, kind, name)} />;
  }
  if (kind === 'Node') return <NodeDevices node={name} />;
  if (kind === 'ResourceClaim') return <ClaimDevices page={path('objects', 'claim', namespace, name)} />;
  return null;
}

function Section({ title, error, children }: { title: string; error?: string; children?: ReactNode }) {
  return <SectionBox title={title}>{error ? <Typography role="alert">{error}</Typography> : children}</SectionBox>;
}

/** Why pods are pending, and what would help. */
function WhyPending({ page }: { page: string }) {
  const object = useTwin<ObjectPage>(page);
  const group = object.value?.group;
  const cause = useTwin<Cause>(group ? path('pending', group) : null);
  if (!group && !object.error) return null; // not pending, as far as is known
  const found = cause.value;
  return (
    <Section title="Why pending" error={object.error ?? cause.error}>
      {found && <Typography>{object.value?.sentence || found.group.summary}</Typography>}
      {found && (
        <NameValueTable
          rows={[
            { name: 'Cause', value: found.group.code },
            { name: 'Pods with this cause', value: found.group.count },
            ...(found.remedies ?? []).map((remedy, number) => ({
              name: number ? 'Or' : 'What helps',
              value: remedy.texts.join('; '),
            })),
            { name: 'Command', value: <code>{object.value?.command}</code> },
          ]}
        />
      )}
    </Section>
  );
}

/** The devices of a node, and which claims and pods hold them. */
function NodeDevices({ node }: { node: string }) {
  const { value, error } = useTwin<DeviceMap>(`/map?node=${encodeURIComponent(node)}`);
  const devices = devicesOf(value, node);
  if (!error && devices.length === 0) return null;
  const kind = (device: Device) => {
    const known = value?.kinds?.[device.kind];
    return [known?.product ?? known?.driver, known?.memory].filter(Boolean).join(', ');
  };
  return (
    <Section title="Devices" error={error}>
      <SimpleTable
        data={devices}
        columns={[
          { label: 'Device', getter: (device: Device) => device.name },
          { label: 'Kind', getter: kind },
          { label: 'State', getter: (device: Device) => [device.state, ...(device.taints ?? [])].join(', ') },
          { label: 'Held by', getter: (device: Device) => <Holders device={device} map={value ?? {}} /> },
        ]}
      />
    </Section>
  );
}

function Holders({ device, map }: { device: Device; map: DeviceMap }) {
  const held = (device.holders ?? []).flatMap(number => map.holders?.[number] ?? []);
  return (
    <>
      {held.map(({ claim, namespace, pods }) => {
        const name = claim.slice(claim.lastIndexOf('/') + 1);
        return (
          <div key={claim}>
            <Link routeName={CLAIM_ROUTE} params={{ namespace, name }}>
              {namespace}/{name}
            </Link>
            {pods?.length ? ` (${pods.map(pod => pod.replace(`${namespace}/`, '')).join(', ')})` : ''}
          </div>
        );
      })}
    </>
  );
}

/** The devices of a claim, its pods, and why it waits. */
function ClaimDevices({ page }: { page: string }) {
  const { value, error } = useTwin<ObjectPage>(page);
  if (!value && !error) return null;
  const name = (to: Reference) => `${to.kind} ${to.namespace ? `${to.namespace}/` : ''}${to.name}`;
  return (
    <Section title="Devices" error={error}>
      <Typography>{value?.sentence}</Typography>
      <NameValueTable
        rows={[
          { name: 'State', value: value?.state },
          ...(value?.facts ?? []),
          ...(value?.refersTo ?? []).map(to => ({ name: to.relation, value: name(to) })),
          ...(value?.referredBy ?? []).map(by => ({ name: name(by), value: `${by.relation} it` })),
          { name: 'Command', value: <code>{value?.command}</code> },
        ]}
      />
    </Section>
  );
}
