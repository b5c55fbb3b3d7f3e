/**
 * What the README shows for containerd. `cniVersion` is what containerd 1.6 speaks; `cniVersions` makes `cni gc` take
 * 1.1.0, the first version in which plugins collect garbage.
 */
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

/** What the README shows for podman. */
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
    { type: "tuning", sysctl: { "net.ipv4.conf.eth0.arp_filter": "1" } },
  ],
}
