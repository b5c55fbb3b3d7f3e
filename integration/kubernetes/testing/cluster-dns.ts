import { dnsImage } from "./images.ts"

const metadata = { name: "coredns", namespace: "kube-system" }
const labels = { "k8s-app": "kube-dns" }
const rbac = "rbac.authorization.k8s.io"

const corefile = `
.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    cache 30
    reload
}
`

const podSpec = {
  serviceAccountName: metadata.name,
  dnsPolicy: "Default",
  containers: [
    {
      name: "coredns",
      image: dnsImage,
      args: ["-conf", "/etc/coredns/Corefile"],
      volumeMounts: [{ name: "config", mountPath: "/etc/coredns", readOnly: true }],
      readinessProbe: { httpGet: { path: "/ready", port: 8181 } },
    },
  ],
  volumes: [{ name: "config", configMap: { name: metadata.name } }],
}

/** The objects of the cluster's DNS, which the tests query for services: two pods of CoreDNS behind 10.96.0.10. */
export const clusterDns = {
  apiVersion: "v1",
  kind: "List",
  items: [
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRole",
      metadata: { name: "system:coredns" },
      rules: [
        { apiGroups: [""], resources: ["endpoints", "services", "pods", "namespaces"], verbs: ["list", "watch"] },
        { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
      ],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name: "system:coredns" },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "system:coredns" },
      subjects: [{ kind: "ServiceAccount", ...metadata }],
    },
    { apiVersion: "v1", kind: "ConfigMap", metadata, data: { Corefile: corefile } },
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata,
      spec: { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec } },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "kube-dns", namespace: "kube-system", labels },
      spec: {
        clusterIP: "10.96.0.10",
        selector: labels,
        ports: ["UDP", "TCP"].map((protocol) => ({ name: `dns-${protocol.toLowerCase()}`, port: 53, protocol })),
      },
    },
  ],
}
