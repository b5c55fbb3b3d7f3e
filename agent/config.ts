/** The agent's configuration, `/etc/cni/agent.json`. */
export interface AgentConfig {
  readonly store: StoreConfig
  /** The node's name; default: `NODE_NAME` of the environment, else the host's name. */
  readonly node?: string
  /** Where the files of pools are written: "/var/lib/cni/pools". */
  readonly poolDir: string
  /** host-local's `dataDir`: "/var/lib/cni/networks". */
  readonly dataDir: string
  /** "/run/cni-agent.sock" */
  readonly socket: string
  /** Address and port of HTTP, on loopback: "127.0.0.1:9817"; "" for none. */
  readonly http: string
  readonly log: "text" | "json"
  /** Addresses of this node to publish, at most one of each family; default: the source addresses of the default routes. */
  readonly nodeAddresses?: readonly string[]
}

/** TLS of a connection; all are paths, read again when a file has changed. */
export interface TlsConfig {
  readonly ca?: string
  readonly certificate?: string
  readonly key?: string
}

export type StoreConfig =
  | { readonly type: "directory"; readonly path: string }
  | {
      readonly type: "etcd"
      /** "https://10.0.0.1:2379" */
      readonly endpoints: readonly string[]
      /** All keys begin with it; default "/cni/". */
      readonly prefix?: string
      readonly tls?: TlsConfig
      readonly username?: string
      /** The file with the password. */
      readonly passwordFile?: string
    }
  | {
      readonly type: "kubernetes"
      /** Path of a kubeconfig; without it the service account of the pod. */
      readonly kubeconfig?: string
      /** "podCIDRs": copy `Node.spec.podCIDRs`, without pools of ours; `network` is the CNI network. */
      readonly source?: "pools" | "podCIDRs"
      readonly network?: string
    }
