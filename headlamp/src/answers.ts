// What `allot web` answers: the JSON twins of its pages, and how they are fetched.
import { ConfigStore } from '@kinvolk/headlamp-plugin/lib';
import { useEffect, useState } from 'react';

export const PLUGIN = 'allotment';

/** The page of an object. `group`: the cause for which its pods are pending. */
export interface ObjectPage {
  state: string;
  sentence: string;
  command: string;
  group?: string;
  facts?: { name: string; value: string }[];
  refersTo?: Reference[];
  referredBy?: Reference[];
}

export type Reference = { relation: string; kind: string; namespace?: string; name: string };

/** One cause of pending pods. */
export interface Cause {
  group: { code: string; summary: string; count: number };
  remedies?: { texts: string[] }[];
}

/** The devices of nodes; `holders`, `kinds` and `layouts` are referred to by number, devices by their position `at`. */
export interface DeviceMap {
  kinds?: { driver: string; product?: string; memory?: string }[];
  holders?: { claim: string; namespace: string; pods?: string[] }[];
  layouts?: { devices?: Placed[] }[];
  nodes?: { name: string; layout: number; states?: Record<string, number[]>; devices?: Use[] }[];
}

export type Placed = { name: string; kind: number };
export type Use = { at: number; holders?: number[]; taints?: string[] };
export type Device = Placed & Partial<Use> & { state: string };

/** The devices of a node; those without a state of their own are free. */
export function devicesOf(map: DeviceMap | null | undefined, name: string): Device[] {
  const node = map?.nodes?.find(each => each.name === name);
  const states = Object.entries(node?.states ?? {});
  return (map?.layouts?.[node?.layout ?? 0]?.devices ?? []).map((device, at) => ({
    ...device,
    ...node?.devices?.find(use => use.at === at),
    state: states.find(([, positions]) => positions.includes(at))?.[0] ?? 'free',
  }));
}

/** `address` is that of `allot web`, without its token. */
export const settings = new ConfigStore<{ address?: string }>(PLUGIN);

/** Separates the token from an address as `allot web` prints it: `http://127.0.0.1:8780/?token=…`. */
export function split(text: string): { address: string; token: string | null } {
  try {
    const url = new URL(text.trim());
    return { address: url.origin + url.pathname.replace(/\/+$/, ''), token: url.searchParams.get('token') };
  } catch {
    return { address: text.trim(), token: null };
  }
}

/** The token, which is kept only as long as the window: unlike settings, it is a secret. */
export function token(value?: string): string {
  if (value !== undefined) sessionStorage.setItem('allotment-token', value);
  return sessionStorage.getItem('allotment-token') ?? '';
}

/** A path of names, each encoded: names come from the cluster. */
export function path(...names: (string | undefined)[]): string {
  return names.map(name => '/' + encodeURIComponent(name ?? '')).join('');
}

/** Fetches the JSON twin of a page; null if there is none. Throws an Error with a sentence for the reader. */
export async function fetchTwin<T>(address: string, page: string, signal?: AbortSignal): Promise<T | null> {
  const authorization = token() ? { Authorization: `Bearer ${token()}` } : {};
  const headers = { Accept: 'application/json', ...authorization };
  const response = await fetch(address + page, { headers, credentials: 'omit', signal }).catch(() => null);
  if (!response) {
    throw new Error(`No answer from ${address}. Is it running, with --allow-origin ${window.location.origin}?`);
  }
  if (response.ok) return response.json();
  if (response.status === 404) return null;
  if (response.status === 401) throw new Error('The token is missing or has expired: set it in the plugin settings.');
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? problem.title ?? `${address} answered ${response.status}.`);
}

export type Answer<T> = { value?: T | null; error?: string };

/** The twin of a page, fetched again when the page changes; null asks nothing. */
export function useTwin<T>(page: string | null): Answer<T> {
  const { address } = settings.useConfig()() ?? {};
  const [answer, setAnswer] = useState<Answer<T>>({});
  useEffect(() => {
    setAnswer(page && !address ? { error: 'Set the address of allot web in the settings of this plugin.' } : {});
    if (!page || !address) return;
    const aborter = new AbortController();
    const show = (found: Answer<T>) => aborter.signal.aborted || setAnswer(found);
    fetchTwin<T>(address, page, aborter.signal)
      .then(value => show({ value }))
      .catch(error => show({ error: error.message }));
    return () => aborter.abort();
  }, [address, page]);
  return answer;
}
