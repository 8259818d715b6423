// Allotment in Headlamp: why pods are pending, and the devices of nodes and claims. The answers are those of `allot web`.
import {
  DetailsViewSectionProps,
  K8s,
  PluginSettingsDetailsProps,
  registerDetailsViewSection,
  registerPluginSettings,
  registerRoute,
} from '@kinvolk/headlamp-plugin/lib';
import { DetailsGrid } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { TextField } from '@mui/material';
import { useParams } from 'react-router-dom';
import { PLUGIN, split, token } from './answers';
import { CLAIM_ROUTE, sectionOf } from './sections';

registerDetailsViewSection(({ resource }: DetailsViewSectionProps) =>
  resource ? sectionOf(resource.kind, resource.getNamespace?.(), resource.getName()) : null
);

class ResourceClaim extends K8s.cluster.KubeObject {
  static kind = 'ResourceClaim';
  static apiName = 'resourceclaims';
  static apiVersion = ['resource.k8s.io/v1', 'resource.k8s.io/v1beta2', 'resource.k8s.io/v1beta1'];
  static isNamespaced = true;
  static get detailsRoute() {
    return CLAIM_ROUTE;
  }
}

function ClaimPage() {
  const { namespace, name } = useParams<{ namespace: string; name: string }>();
  return <DetailsGrid resourceType={ResourceClaim} namespace={namespace} name={name} withEvents />;
}

registerRoute({
  path: '/resourceclaims/:namespace/:name',
  name: CLAIM_ROUTE,
  sidebar: null,
  component: () => <ClaimPage />,
});

/** The address is a setting; the token is a secret of this window. */
export function SettingsForm({ data, onDataChange }: PluginSettingsDetailsProps) {
  const onAddress = (text: string) => {
    const found = split(text);
    if (found.token !== null) token(found.token);
    onDataChange?.({ ...data, address: found.address });
  };
  return (
    <>
      <TextField
        label="Address of allot web"
        helperText="As printed by allot web, or the address of the chart's component web"
        defaultValue={data?.address ?? ''}
        onChange={event => onAddress(event.target.value)}
        fullWidth
      />
      <TextField
        label="Token"
        helperText="A bearer token for the cluster; not needed with the printed address. Forgotten with this window."
        type="password"
        autoComplete="off"
        onChange={event => token(event.target.value)}
        fullWidth
      />
    </>
  );
}

registerPluginSettings(PLUGIN, SettingsForm, true);
