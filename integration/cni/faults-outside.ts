import { expect } from "bun:test"
import { type ContainerNamespace, waitFor } from "../lab/mod.ts"
import type { Fault } from "./faults-table.ts"
import type { NodeLab } from "./node-lab.ts"

const OUTSIDE = "192.0.2.1"

/** Adds another machine, which becomes the host's gateway. */
async function addOutside({ host }: NodeLab): Promise<ContainerNamespace> {
  const outside = await host.addContainer()
  await host.exec("ip", ["link", "add", "up0", "up", "type", "veth", "peer", "name", "eth0", "netns", outside.name])
  await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "up0"])
  await host.exec("ip", ["route", "add", "default", "via", OUTSIDE])
  await outside.exec("sh", ["-ec", `ip address add ${OUTSIDE}/24 dev eth0; ip link set eth0 up`])
  return outside
}

/** Checks that either all pods or no pods reach the other machine. */
async function expectOutside(pods: readonly ContainerNamespace[], isReached: boolean): Promise<void> {
  for (const pod of pods) {
    const ping = async () => (await pod.tryExec("ping", ["-c1", "-W1", OUTSIDE])).exitCode === 0
    if (isReached) await waitFor(ping, "what is outside to answer a pod")
    else expect(await ping()).toBe(false)
  }
}

/** Faults on the way from the host to other machines. */
export const faultsOutside: readonly Fault[] = [
  {
    rule: "host-gateway-silent",
    severity: "warning",
    names:
      /^192\.0\.2\.1, the gateway of the host's default route by "up0", did not answer the host's last request for its MAC$/,
    seed: async (lab, pods) => {
      const outside = await addOutside(lab)
      await outside.exec("ip", ["link", "set", "eth0", "arp", "off"])
      await expectOutside(pods, false)
      const entry = async () => (await lab.host.exec("ip", ["neighbour", "show", "dev", "up0"])).stdout
      await waitFor(async () => (await entry()).includes("FAILED"), "the host to give up asking for its gateway")
    },
  },
  {
    rule: "outside-route-closed",
    severity: "warning",
    names: /^the host's route to 128\.0\.0\.0\/1 drops packets, but containers send packets to it through the host$/,
    seed: async (lab, pods) => {
      await addOutside(lab)
      // Many hosts have such routes on purpose: to private networks and to single networks.
      for (const network of ["10.0.0.0/8", "172.16.0.0/12", "224.0.0.0/4", "198.51.100.0/24"])
        await lab.host.exec("ip", ["route", "add", "blackhole", network])
      expect((await lab.doctor()).findings).toEqual([])
      await lab.host.exec("ip", ["route", "add", "blackhole", "128.0.0.0/1", "metric", "7"])
      const { stdout } = await lab.cni(["trace", "pods", pods[0]?.path ?? "", "--to", "198.51.99.1"])
      expect(stdout).toMatch(/^STOP/m)
    },
    words: /^it may be intended, .*"ip route show 128\.0\.0\.0\/1" shows it$/,
    mend: ({ host }) => host.exec("ip", ["route", "delete", "blackhole", "128.0.0.0/1", "metric", "7"]),
  },
  {
    rule: "outside-route-closed",
    how: "to what a network has a route to",
    severity: "error",
    names:
      /^the host's route to 10\.99\.0\.0\/16 drops packets, but ADD gave "far\/.*\(pod shop\/far\) a route to it through the host$/,
    seed: async (lab) => {
      await addOutside(lab)
      const ipam = { ranges: [[{ subnet: "10.87.0.0/24" }]], routes: [{ dst: "10.99.7.0/24" }] }
      const bridge = { type: "bridge", bridge: "cni1", isGateway: true, ipMasq: true }
      const plugins = [{ ...bridge, ipam: { type: "host-local", ...ipam } }]
      await lab.writeNetwork("20-far.conflist", { cniVersion: "1.1.0", name: "far", plugins })
      await lab.addPod("far", "far")
      expect((await lab.doctor()).findings).toEqual([])
      await lab.host.exec("ip", ["route", "add", "unreachable", "10.99.0.0/16"])
    },
    words: /^exclude packets of containers from the route, /,
    mend: ({ host }) => host.exec("ip", ["route", "delete", "unreachable", "10.99.0.0/16"]),
  },
  {
    rule: "uplink-no-address",
    severity: "error",
    names:
      /^the host has no IPv4 addresses outside its containers' networks, but 2 containers are masqueraded; interface "up0" has no address$/,
    seed: async (lab, pods) => {
      await addOutside(lab)
      await expectOutside(pods, true)
      expect((await lab.doctor()).findings).toEqual([])
      await lab.host.exec("ip", ["address", "flush", "dev", "up0"])
    },
    words: /^restore the uplink's address and default route: networkctl reconfigure up0, /,
    mend: async ({ host }) => {
      await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "up0"])
      await host.exec("ip", ["route", "add", "default", "via", OUTSIDE])
    },
  },
]
