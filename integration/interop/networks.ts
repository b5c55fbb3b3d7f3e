/** The README's network for containerd. containerd 1.6 uses `cniVersion`, and `cni gc` uses 1.1.0 of `cniVersions`. */
export const containerdNetwork = {
  cniVersion: "1.0.0",
  cniVersions: ["1.0.0", "1.1.0"],
  name: "pods",
  plugins: [
    {
      type: "bridge",
      bridge: "cni0",
      isDefaultGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.85.0.0/16" }]] },
    },
    { type: "tuning", sysctl: { "net.ipv4.conf.eth0.arp_filter": "1" } },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

/** The configuration that `nerdctl network create web` writes: a bridge network of four plugins without `backend`. */
export const nerdctlNetwork = {
  cniVersion: "1.0.0",
  name: "web",
  nerdctlID: "3ce3f6a3a9b1b2f1f1d8a7d0fbbd2f9d6a9a5f0f6b9fbf9e3b9b2b0a7f6c5d4e",
  nerdctlLabels: {},
  plugins: [
    {
      type: "bridge",
      bridge: "br-3ce3f6a3a9b1",
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: {
        ranges: [[{ gateway: "10.4.1.1", subnet: "10.4.1.0/24" }]],
        routes: [{ dst: "0.0.0.0/0" }],
        type: "host-local",
      },
    },
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "firewall", ingressPolicy: "same-bridge" },
    { type: "tuning" },
  ],
}

/** The README's network for podman. */
export const podmanNetwork = {
  cniVersion: "0.4.0",
  name: "podman",
  plugins: [
    {
      type: "bridge",
      bridge: "cni-podman0",
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: "host-local", routes: [{ dst: "0.0.0.0/0" }], ranges: [[{ subnet: "10.88.0.0/16" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "firewall" },
    { type: "tuning", sysctl: { "net.ipv4.conf.eth0.arp_filter": "1" } },
  ],
}
