import {
  type Breakage,
  type HostNamespace,
  type InterfacePlugin,
  interfacePlugin,
  interfacePlugins,
  testBreakages,
} from "../lab/mod.ts"

/** Breakages of each step that all interface plugins have. */
function commonBreakages({ network, everything, dualStack, gateway }: InterfacePlugin): Breakage[] {
  return [
    {
      step: "the configuration is wrong",
      keys: { ...everything, mtu: "wide" },
      code: 7,
      says: 'Cannot use "mtu"',
      everyAdd: true,
    },
    {
      step: "the namespace does not exist",
      keys: everything,
      setUp: (host, pod) => host.removeContainer(pod),
      code: 4,
      says: "does not exist",
      everyAdd: false,
    },
    {
      step: "the IPAM plugin does not exist",
      keys: { ipam: { type: "no-such-plugin" } },
      code: 999,
      says: 'failed to find plugin "no-such-plugin"',
      everyAdd: true,
    },
    {
      step: "the address is taken",
      keys: { ...everything, args: { cni: { ips: [gateway] } } },
      code: 999,
      says: "gateway",
      everyAdd: false,
    },
    {
      step: "no interface can have that MAC",
      keys: { ...everything, runtimeConfig: { mac: "01:00:5e:00:00:01" } },
      code: 7,
      says: 'Cannot use "runtimeConfig.mac"',
      everyAdd: false,
    },
    {
      step: "the MTU is less than IPv6 takes",
      keys: { ...everything, ...dualStack, mtu: 1000 },
      code: 7,
      says: 'Cannot use "mtu" 1000 with fd00:',
      everyAdd: true,
    },
    {
      step: "the MTU is less than any interface takes",
      keys: { ...everything, mtu: 67 },
      code: 7,
      says: 'Cannot use "mtu": expected 0, or a number from 68',
      everyAdd: true,
    },
    {
      step: "an address cannot be added",
      keys: { ...everything, ipam: { type: "static", addresses: [{ address: "ff02::5/64" }] } },
      code: 999,
      says: "Cannot add address ff02::5/64",
      everyAdd: false,
    },
    {
      step: "a route cannot be added",
      keys: {
        ...everything,
        ipam: { ...network(everything).ipam, routes: [{ dst: "192.0.2.0/24", gw: "198.51.100.1" }] },
      },
      code: 999,
      says: "Cannot add the routes",
      everyAdd: false,
    },
  ]
}

/** Breakages of each step that plugins with masquerading have. */
function breakagesOfMasquerade({ everything }: InterfacePlugin): Breakage[] {
  return [
    {
      step: "the masquerade's set is of another type",
      keys: everything,
      setUp: (host) =>
        host.exec("nft", ["add table ip cni_masquerade; add set ip cni_masquerade containers { type mark; }"]),
      code: 999,
      says: "Cannot masquerade",
      everyAdd: false,
    },
    {
      step: "forwarding cannot be switched on",
      keys: everything,
      setUp: (host) => makeReadOnly(host, "/proc/sys/net/ipv4/ip_forward"),
      code: 999,
      says: "Cannot enable forwarding",
      everyAdd: true,
    },
  ]
}

/** Makes a file read-only by a bind mount in the host's own mount namespace, so that the machine is not affected. */
async function makeReadOnly(host: HostNamespace, file: string): Promise<void> {
  await host.exec("mount", ["--bind", file, file])
  await host.exec("mount", ["-o", "remount,bind,ro", file])
}

for (const name of interfacePlugins()) {
  const plugin = interfacePlugin(name)
  const all = [...commonBreakages(plugin), ...(plugin.masquerades ? breakagesOfMasquerade(plugin) : [])]
  const isTelling = ({ step }: Breakage) => plugin.like === undefined || step === "a route cannot be added"
  testBreakages(plugin.network, all.filter(isTelling))
}
