// The sections show what `allot web` answers, as text, and say what to do where it does not answer.
import '@testing-library/jest-dom/vitest';

import { act, fireEvent, render, screen } from '@testing-library/react';
import { MemoryRouter, Route } from 'react-router-dom';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

const address = { current: 'http://127.0.0.1:8780' as string | undefined };

const registered = vi.hoisted(() => ({ sections: [] as any[], routes: [] as any[], settings: [] as any[] }));
vi.mock('@kinvolk/headlamp-plugin/lib', () => ({
  K8s: {
    cluster: {
      KubeObject: class {
        static get detailsRoute() {
          return 'a getter, as in Headlamp';
        }
      },
    },
  },
  registerDetailsViewSection: (section: any) => registered.sections.push(section),
  registerRoute: (route: any) => registered.routes.push(route),
  registerPluginSettings: (...settings: any[]) => registered.settings.push(settings),
  ConfigStore: class {
    useConfig() {
      return () => ({ address: address.current });
    }
  },
}));
vi.mock('@kinvolk/headlamp-plugin/lib/CommonComponents', () => ({
  DetailsGrid: ({ resourceType, namespace, name }: any) => (
    <p>{`${resourceType.kind} ${namespace}/${name} at ${resourceType.detailsRoute}`}</p>
  ),
  Link: ({ children }: any) => <a href="#claim">{children}</a>,
  NameValueTable: ({ rows }: any) => (
    <dl>
      {rows
        .filter((row: any) => !row.hide)
        .map((row: any, number: number) => (
          <div key={number}>
            <dt>{row.name}</dt>
            <dd>{row.value}</dd>
          </div>
        ))}
    </dl>
  ),
  SectionBox: ({ title, children }: any) => (
    <section>
      <h2>{title}</h2>
      {children}
    </section>
  ),
  SimpleTable: ({ data, columns }: any) => (
    <table>
      <tbody>
        {data.map((row: any, number: number) => (
          <tr key={number}>
            {columns.map((column: any) => (
              <td key={column.label}>{column.getter(row)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  ),
}));

import { fetchTwin, path, split, token } from '../src/answers';
import { sectionOf } from '../src/sections';

const asked: { url: string; options: RequestInit }[] = [];

function answers(pages: Record<string, unknown>, status = 200) {
  vi.stubGlobal('fetch', async (url: string, options: RequestInit) => {
    asked.push({ url, options });
    const page = url.replace('http://127.0.0.1:8780', '');
    if (!(page in pages)) return new Response('{"title": "Not found"}', { status: 404 });
    return new Response(JSON.stringify(pages[page]), { status });
  });
}

beforeEach(() => {
  asked.length = 0;
  address.current = 'http://127.0.0.1:8780';
  sessionStorage.clear();
});
afterEach(() => vi.unstubAllGlobals());

describe('pods and workloads', () => {
  const cause = {
    group: { code: 'selector', summary: 'no device has 80Gi of memory', count: 3 },
    remedies: [{ texts: ['request 40Gi'] }, { texts: ['add a node', 'remove the taint'] }],
  };
  const pending = { state: 'pending', sentence: 'pod chat does not fit', command: 'allot explain pod/chat', group: 'g1' };

  it('shows why a pod is pending, and what helps, in order', async () => {
    answers({ '/objects/pod/ml/chat': pending, '/pending/g1': cause });
    render(<>{sectionOf('Pod', 'ml', 'chat')}</>);
    expect(await screen.findByText('Why pending')).toBeInTheDocument();
    expect(await screen.findByText('pod chat does not fit')).toBeInTheDocument();
    expect(screen.getByText('request 40Gi').previousSibling).toHaveTextContent('What helps');
    expect(screen.getByText('add a node; remove the taint').previousSibling).toHaveTextContent('Or');
    expect(screen.getByText('allot explain pod/chat')).toBeInTheDocument();
  });

  it.each(['CronJob', 'DaemonSet', 'Deployment', 'Job', 'ReplicaSet', 'StatefulSet'])(
    'shows why the pods of a %s are pending',
    async kind => {
      // A workload has no sentence of its own: the cause is that of its pods.
      const workload = { state: '0 of 4 pods placed', command: 'allot explain chat', group: 'g1' };
      answers({ [`/objects/workload/ml/${kind}/chat`]: workload, '/pending/g1': cause });
      render(<>{sectionOf(kind, 'ml', 'chat')}</>);
      expect(await screen.findByText('no device has 80Gi of memory')).toBeInTheDocument();
      expect(screen.getByText('3').previousSibling).toHaveTextContent('Pods with this cause');
      expect(screen.getByText('request 40Gi')).toBeInTheDocument();
    }
  );

  it('shows nothing for a pod that runs, and for objects that allot web does not know', async () => {
    answers({ '/objects/pod/ml/web': { ...pending, state: 'running', group: undefined } });
    const { container } = render(
      <>
        {sectionOf('Pod', 'ml', 'web')}
        {sectionOf('Deployment', 'ml', 'unknown')}
      </>
    );
    await act(async () => {
      await vi.waitFor(() => expect(asked.length).toBe(2));
    });
    expect(container).toBeEmptyDOMElement();
  });

  it('shows markup in names as text', async () => {
    const name = '<img src=x onerror=alert(1)>';
    answers({ '/objects/pod/ml/chat': { ...pending, sentence: name }, '/pending/g1': cause });
    const { container } = render(<>{sectionOf('Pod', 'ml', 'chat')}</>);
    expect(await screen.findByText(name)).toBeInTheDocument();
    expect(container.querySelector('img')).toBeNull();
  });
});

describe('devices', () => {
  it('of a node, with their holders', async () => {
    answers({
      '/map?node=dgx-1': {
        kinds: [{ driver: 'gpu.nvidia.com', product: 'A100', memory: '40Gi' }],
        holders: [{ claim: 'ml/train-gpu', namespace: 'ml', pods: ['ml/train-0'] }],
        nodes: [
          { name: 'dgx-1', layout: 0, states: { 'in-use': [0], tainted: [1] }, devices: [{ at: 0, holders: [0] }, { at: 1, taints: ['broken=true:NoExecute'] }] },
          { name: 'dgx-2', layout: 1 },
        ],
        layouts: [{ devices: [{ name: 'gpu-0', kind: 0 }, { name: 'gpu-1', kind: 0 }] }, { devices: [{ name: 'gpu-9', kind: 0 }] }],
      },
    });
    render(<>{sectionOf('Node', undefined, 'dgx-1')}</>);
    expect(await screen.findByText('gpu-0')).toBeInTheDocument();
    expect(screen.getAllByText('A100, 40Gi')).toHaveLength(2);
    expect(screen.getByText('ml/train-gpu').parentElement).toHaveTextContent('ml/train-gpu (train-0)');
    expect(screen.getByText('tainted, broken=true:NoExecute')).toBeInTheDocument();
    expect(screen.queryByText('gpu-9')).toBeNull();
  });

  it('of a claim', async () => {
    answers({
      '/objects/claim/ml/train-gpu': {
        state: 'allocated', sentence: 'claim train-gpu has one device', command: 'allot get resourceclaim train-gpu',
        facts: [{ name: 'Class', value: 'gpu.nvidia.com' }],
        refersTo: [{ relation: 'has', kind: 'device', name: 'dgx-1/gpu-0' }],
        referredBy: [{ relation: 'uses', kind: 'pod', namespace: 'ml', name: 'train-0' }],
      },
    });
    render(<>{sectionOf('ResourceClaim', 'ml', 'train-gpu')}</>);
    expect(await screen.findByText('claim train-gpu has one device')).toBeInTheDocument();
    expect(screen.getByText('device dgx-1/gpu-0').previousSibling).toHaveTextContent('has');
    expect(screen.getByText('pod ml/train-0').nextSibling).toHaveTextContent('uses it');
  });

  it('are not shown for other kinds', () => {
    expect(sectionOf('ConfigMap', 'ml', 'a')).toBeNull();
  });
});

describe('registration', () => {
  it('adds sections, the page of claims and the settings', async () => {
    await import('../src/index');
    const [section] = registered.sections;
    expect(section({ resource: undefined })).toBeNull();
    const pod = { kind: 'Pod', getName: () => 'chat', getNamespace: () => 'ml' };
    expect(section({ resource: pod }).props.page).toBe('/objects/pod/ml/chat');
    expect(registered.routes[0]).toMatchObject({ path: '/resourceclaims/:namespace/:name', name: 'allotment-claim' });
    render(
      <MemoryRouter initialEntries={['/resourceclaims/ml/gpu']}>
        <Route path={registered.routes[0].path}>{registered.routes[0].component()}</Route>
      </MemoryRouter>
    );
    expect(screen.getByText('ResourceClaim ml/gpu at allotment-claim')).toBeInTheDocument();
    expect(registered.settings[0][0]).toBe('allotment');
  });

  it('keeps the token of a pasted address out of the settings', async () => {
    const { SettingsForm } = await import('../src/index');
    const saved: unknown[] = [];
    render(<SettingsForm data={{}} onDataChange={data => saved.push(data)} />);
    fireEvent.change(screen.getByLabelText('Address of allot web'), {
      target: { value: 'http://127.0.0.1:8780/?token=secret' },
    });
    expect(saved).toEqual([{ address: 'http://127.0.0.1:8780' }]);
    expect(token()).toBe('secret');
    fireEvent.change(screen.getByLabelText('Token'), { target: { value: 'other' } });
    expect(token()).toBe('other');
  });
});

describe('connection', () => {
  it('says what to set without an address', async () => {
    address.current = undefined;
    render(<>{sectionOf('Node', undefined, 'dgx-1')}</>);
    expect(await screen.findByRole('alert')).toHaveTextContent('Set the address of allot web');
  });

  it('says that the token has expired', async () => {
    answers({ '/map?node=dgx-1': {} }, 401);
    render(<>{sectionOf('Node', undefined, 'dgx-1')}</>);
    expect(await screen.findByRole('alert')).toHaveTextContent('has expired');
  });

  it('shows the detail of a problem', async () => {
    answers({ '/map?node=dgx-1': { title: 'Forbidden', detail: 'you may not list resourceslices' } }, 403);
    render(<>{sectionOf('Node', undefined, 'dgx-1')}</>);
    expect(await screen.findByRole('alert')).toHaveTextContent('you may not list resourceslices');
  });

  it('names the option if the browser gets no answer', async () => {
    vi.stubGlobal('fetch', async () => Promise.reject(new TypeError('Failed to fetch')));
    render(<>{sectionOf('Node', undefined, 'dgx-1')}</>);
    expect(await screen.findByRole('alert')).toHaveTextContent('--allow-origin http://localhost');
  });

  it('keeps the token out of the address and the settings', async () => {
    expect(split('http://127.0.0.1:8780/?token=secret')).toEqual({ address: 'http://127.0.0.1:8780', token: 'secret' });
    expect(split('https://gpus.example/allotment/')).toEqual({ address: 'https://gpus.example/allotment', token: null });
    token('secret');
    answers({ '/map': {} });
    await fetchTwin('http://127.0.0.1:8780', '/map');
    expect(asked[0].url).toBe('http://127.0.0.1:8780/map');
    expect(asked[0].options.headers).toMatchObject({ Authorization: 'Bearer secret' });
    expect(asked[0].options.credentials).toBe('omit');
  });

  it('encodes names', () => {
    expect(path('objects', 'pod', 'ml', 'a/../b?c')).toBe('/objects/pod/ml/a%2F..%2Fb%3Fc');
  });
});
